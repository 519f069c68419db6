/* Faktory: PUSH, then FETCH and ACK. As "faktory-beat": BEAT, which asks nothing of the server but its
 * attention.
 */
#define _GNU_SOURCE
#include "load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { AWAITS_HI, AWAITS_HELLO_OK, AT_WORK };

static void submit(conn *c) {
  char head[160];
  sprintf(head, "PUSH {\"jid\":\"load%012ld\",\"jobtype\":\"bench\",\"queue\":\"%s\",\"args\":[\"",
          job_base + submitted, options.queue);
  put_text(c, head);
  put(c, filler, options.payload);
  put_text(c, "\"]}\r\n");
}

static void say_worker_hello(conn *c) {
  char hello[160];
  sprintf(hello,
          "HELLO {\"v\":2,\"hostname\":\"h\",\"wid\":\"loadwid%d-%d\",\"pid\":1,\"labels\":[]}\r\n",
          getpid(), c->number);
  put_text(c, hello);
}

static void say_hello(conn *c) {
  if (c->is_consumer) say_worker_hello(c);
  else put_text(c, "HELLO {\"v\":2}\r\n");
}

static void fetch(conn *c) {
  put_text(c, "FETCH ");
  put_text(c, options.queue);
  put_text(c, "\r\n");
}

static long take(conn *c, char *bytes, long len) {
  char *end = memmem(bytes, len, "\r\n", 2);
  if (!end) return 0;
  long size = end - bytes + 2;
  if (*bytes == '-') {
    fprintf(stderr, "the server says %.*s", (int)size, bytes);
    exit(1);
  }
  if (c->state == AWAITS_HI) {
    say_hello(c);
    c->state = AWAITS_HELLO_OK;
  } else if (c->state == AWAITS_HELLO_OK) {
    c->state = AT_WORK;
    if (c->is_consumer) fetch(c);
    ready();
  } else if (!c->is_consumer) {
    accepted(c);
  } else if (*bytes == '$' && atoi(bytes + 1) < 0) { /* no job within the server's wait */
    fetch(c);
  } else if (*bytes == '$') {
    int body_len = atoi(bytes + 1);
    if (len < size + body_len + 2) return 0;
    char *jid = memmem(bytes + size, body_len, "load", 4), ack[64];
    if (!jid) die("a fetched job is not one of ours");
    sprintf(ack, "ACK {\"jid\":\"%.16s\"}\r\n", jid);
    put_text(c, ack);
    size += body_len + 2;
  } else { /* +OK to the ACK */
    completed++;
    fetch(c);
  }
  return size;
}

const protocol faktory = {"faktory", NULL, submit, take};

static void beat(conn *c) {
  char text[64];
  sprintf(text, "BEAT {\"wid\":\"loadwid%d-%d\"}\r\n", getpid(), c->number);
  put_text(c, text);
}

static long take_beat(conn *c, char *bytes, long len) {
  if (c->state != AWAITS_HI) return take(c, bytes, len);
  char *end = memmem(bytes, len, "\r\n", 2);
  if (!end) return 0;
  say_worker_hello(c);
  c->state = AWAITS_HELLO_OK;
  return end - bytes + 2;
}

const protocol faktory_beat = {"faktory-beat", NULL, beat, take_beat};
