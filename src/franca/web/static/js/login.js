// The form works without this as well; with it, what went wrong is said in place.
const form = document.getElementById("login");
const says = document.getElementById("says");
// The page that was asked for stands behind the #, which only the browser knows.
const home = new URL(`./${location.hash}`, document.baseURI);

function say(text) {
  says.textContent = text;
  says.hidden = !text;
}

// What the server says where the browser sent the form by itself.
if (new URLSearchParams(location.search).has("wrong")) {
  say("Wrong password or token.");
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  say("");
  const button = form.querySelector("button");
  button.disabled = true;
  try {
    // An answer that leads elsewhere is a success; it is not followed here.
    const answer = await fetch(form.action, {
      method: "POST",
      body: new URLSearchParams(new FormData(form)),
      credentials: "same-origin",
      redirect: "manual",
    });
    if (answer.type === "opaqueredirect" || answer.ok) {
      location.replace(home);
      return;
    }
    const wait = answer.headers.get("retry-after");
    say(
      answer.status === 429
        ? `Too many attempts.${wait ? ` Try again in ${wait} s.` : " Try again later."}`
        : "Wrong password or token.",
    );
  } catch {
    say("The server is not responding.");
  }
  button.disabled = false;
  document.getElementById("password").select();
});
