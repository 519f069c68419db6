/* beanstalkd: put, then reserve and delete. */
#define _GNU_SOURCE
#include "load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 256 };

static void open_conn(conn *c) {
  char line[LINE];
  if (!c->is_consumer) {
    snprintf(line, sizeof line, "use %s\r\n", options.queue);
    put_text(c, line);
  } else {
    snprintf(line, sizeof line, "watch %s\r\nignore default\r\n", options.queue);
    put_text(c, line);
  }
}

static void submit(conn *c) {
  char line[LINE];
  int len = snprintf(line, sizeof line, "put 1024 0 60 %ld\r\n", options.payload);
  put(c, line, len);
  put(c, filler, options.payload);
  put(c, "\r\n", 2);
}

static void work(conn *c, long id) {
  char line[LINE];
  int len = snprintf(line, sizeof line, "delete %ld\r\nreserve\r\n", id);
  put(c, line, len);
  completed++;
}

static long take(conn *c, char *bytes, long len) {
  char *end = memmem(bytes, len, "\r\n", 2);
  if (!end) return 0;
  long size = end - bytes + 2;
  if (!strncmp(bytes, "RESERVED ", 9)) {
    char *rest;
    long id = strtol(bytes + 9, &rest, 10);
    size += strtol(rest, NULL, 10) + 2;
    if (len < size) return 0;
    work(c, id);
  } else if (!strncmp(bytes, "INSERTED ", 9)) {
    accepted(c);
  } else if (!strncmp(bytes, "USING ", 6)) {
    ready();
  } else if (!strncmp(bytes, "WATCHING 1\r", 11)) {
    put_text(c, "reserve\r\n");
    ready();
  } else if (strncmp(bytes, "WATCHING ", 9) && strncmp(bytes, "DELETED\r", 8)) {
    die("a reply that was not expected");
  }
  return size;
}

const protocol beanstalkd = {"beanstalkd", open_conn, submit, take};
