// Runs before the first paint, so that a chosen theme does not flash. Classic script, not a module.
(function () {
  var root = document.documentElement;
  try {
    var kept = JSON.parse(localStorage.getItem("franca.settings") || "{}");
    if (kept.theme === "light" || kept.theme === "dark") root.dataset.theme = kept.theme;
    if (kept.density === "compact") root.dataset.density = "compact";
  } catch (e) {
    /* private mode: the system's choice stands */
  }
})();
