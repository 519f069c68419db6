/* A line and the same line back: the floor that any server on the same event loop could reach. */
#define _GNU_SOURCE
#include "load.h"

#include <string.h>

static void open_conn(conn *c) {
  (void)c;
  ready();
}

static void submit(conn *c) {
  put(c, filler, options.payload);
  put(c, "\r\n", 2);
}

static long take(conn *c, char *bytes, long len) {
  char *end = memmem(bytes, len, "\r\n", 2);
  if (!end) return 0;
  accepted(c);
  return end - bytes + 2;
}

const protocol echo = {"echo", open_conn, submit, take};
