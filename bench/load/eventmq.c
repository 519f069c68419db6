/* EventMQ over ZMTP 3.0: DEALERs. A client sends a REQUEST and goes on when it has its REPLY and
 * the job has run; a worker INFORMs, says READY for each slot, and answers a REQUEST with REPLY and
 * READY.
 */
#define _GNU_SOURCE
#include "load.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { AWAITS_GREETING, AWAITS_READY, AWAITS_ACK, AT_WORK };
enum { MORE = 1, LONG = 2, COMMAND = 4, GREETING = 64, FRAMES_MAX = 16, ID = 36 };

typedef struct {
  const char *bytes;
  long len;
} frame;

static long last_id;

static void put_frame(conn *c, int flags, const void *bytes, long len) {
  char head[9] = {flags, len};
  if (len < 256) {
    put(c, head, 2);
  } else {
    unsigned long len_be = htobe64(len);
    head[0] = flags | LONG;
    memcpy(head + 1, &len_be, 8);
    put(c, head, 9);
  }
  put(c, bytes, len);
}

static void put_text_frame(conn *c, int flags, const char *text) {
  put_frame(c, flags, text, strlen(text));
}

/* The frames that every message begins with; its id looks like a UUID, as the original's do, and
 * holds the number of the client and of its request. */
static void begin(conn *c, const char *command, unsigned client, unsigned request, int flags) {
  char id[64];
  put_frame(c, MORE, "", 0);
  put_text_frame(c, MORE, "eMQP/1.0");
  put_text_frame(c, MORE, command);
  sprintf(id, "%08x-%04x-4000-8000-%04x%08x", client, getpid() & 0xffff,
          (unsigned)(job_base & 0xffff), request);
  put_frame(c, flags, id, ID);
}

static void begin_worker(conn *c, const char *command, int flags) {
  begin(c, command, 0xffffffff, ++last_id, flags);
}

static void submit(conn *c) {
  c->has_reply = c->has_run = 0;
  begin(c, "REQUEST", c->number, ++c->request, MORE);
  put_text_frame(c, MORE, options.queue);
  put_text_frame(c, MORE, "reply-requested");
  static char *message;
  const char *form = "[\"run\", {\"path\": \"bench\", \"callable\": \"job\", \"args\": [\"%s\"], "
                     "\"kwargs\": {}, \"class_args\": [], \"class_kwargs\": {}}]";
  if (!message && asprintf(&message, form, filler) < 0) die("out of memory");
  put_text_frame(c, 0, message);
}

static void open_conn(conn *c) {
  char greeting[GREETING] = {0};
  greeting[0] = (char)0xff;
  greeting[9] = 0x7f;
  greeting[10] = 3;
  memcpy(greeting + 12, "NULL", 4);
  put(c, greeting, GREETING);
}

/* The original decodes identities as text, so ours are text. */
static void greeted(conn *c) {
  char command[128], name[64];
  char role = c->is_consumer ? 'w' : 'c';
  int len = sprintf(name, "load-%d-%ld-%c%d", getpid(), job_base, role, c->number);
  int size = sprintf(command, "%cREADY%cSocket-Type%c%c%c%cDEALER%cIdentity%c%c%c%c%s", 5, 11, 0,
                     0, 0, 6, 8, 0, 0, 0, len, name);
  put_frame(c, COMMAND, command, size);
}

static void inform(conn *c) {
  char queues[64];
  sprintf(queues, "[[10, \"%s\"]]", options.queue);
  begin_worker(c, "INFORM", MORE);
  put_text_frame(c, MORE, queues);
  put_text_frame(c, 0, "worker");
}

static void go_on(conn *c) {
  if (!c->has_run || !(c->has_reply || options.silent)) return;
  if (!c->has_reply) unanswered++;
  accepted(c);
}

static int is(const frame *f, const char *text) {
  return f->len == (long)strlen(text) && !memcmp(f->bytes, text, f->len);
}

/* The eight digits at a place of an id; what stands behind them in the buffer may be anything. */
static unsigned digits(const frame *id, int at) {
  char text[9] = {0};
  memcpy(text, id->bytes + at, 8);
  return strtoul(text, NULL, 16);
}

static void on_reply(conn *c, const frame *id) {
  if (id->len != ID) return;
  unsigned request = digits(id, ID - 8);
  if (request == c->request && c->in_flight && !c->has_reply) {
    c->has_reply = 1;
    go_on(c);
  } else if (options.silent && unanswered) {
    unanswered--; /* late: the job had run before we heard that somebody has it */
  }
}

static void work(conn *c, const frame *id) {
  begin_worker(c, "REPLY", MORE);
  put_text_frame(c, MORE, "{\"value\": 1}");
  put_frame(c, 0, id->bytes, id->len);
  begin_worker(c, "READY", 0);
  completed++;
  if (id->len != ID) die("a job is not one of ours");
  unsigned client = digits(id, 0), request = digits(id, ID - 8);
  if (client >= (unsigned)options.producers) die("a job is not one of ours");
  conn *producer = &producers[client];
  if (request != producer->request || !producer->in_flight || producer->has_run) return;
  producer->has_run = 1;
  go_on(producer);
}

static void on_message(conn *c, const frame *frames, int count) {
  if (count < 4 || !is(&frames[1], "eMQP/1.0")) die("not an eMQP message");
  const frame *command = &frames[2];
  if (is(command, "REQUEST")) {
    work(c, &frames[3]);
  } else if (is(command, "REPLY") && count > 4) {
    on_reply(c, &frames[count - 1]);
  } else if (is(command, "HEARTBEAT") && c->is_consumer) {
    begin_worker(c, "HEARTBEAT", MORE);
    put_text_frame(c, 0, "1.0");
  } else if (is(command, "ACK") && c->state == AWAITS_ACK) {
    for (int i = 0; i < options.slots; i++) begin_worker(c, "READY", 0);
    c->state = AT_WORK;
    ready();
  }
}

static void on_command(conn *c, const frame *command) {
  if (command->len >= 6 && !memcmp(command->bytes, "\5READY", 6) && c->state == AWAITS_READY) {
    c->state = c->is_consumer ? AWAITS_ACK : AT_WORK;
    if (c->is_consumer) inform(c);
    else ready();
  } else if (command->len >= 7 && !memcmp(command->bytes, "\4PING", 5)) {
    char pong[32] = "\4PONG";
    long context = command->len - 7 < 16 ? command->len - 7 : 16;
    memcpy(pong + 5, command->bytes + 7, context);
    put_frame(c, COMMAND, pong, 5 + context);
  } else if (command->len >= 6 && !memcmp(command->bytes, "\5ERROR", 6)) {
    die("the server refused the greeting");
  }
}

/* Cuts one frame at `at` of the bytes; where it ends, or 0 until more have come. */
static long cut(const char *bytes, long len, long at, frame *f, int *flags) {
  if (len - at < 2) return 0;
  *flags = bytes[at];
  long head = *flags & LONG ? 9 : 2;
  if (len - at < head) return 0;
  unsigned long size_be;
  memcpy(&size_be, bytes + at + 1, *flags & LONG ? 8 : 1);
  f->len = *flags & LONG ? (long)be64toh(size_be) : (unsigned char)bytes[at + 1];
  f->bytes = bytes + at + head;
  return f->len < 0 || f->len > len - at - head ? 0 : at + head + f->len;
}

static long take(conn *c, char *bytes, long len) {
  if (c->state == AWAITS_GREETING) {
    if (len < GREETING) return 0;
    c->state = AWAITS_READY;
    greeted(c);
    return GREETING;
  }
  frame frames[FRAMES_MAX];
  int count = 0, flags = MORE;
  long at = 0;
  while (flags & MORE) {
    if (count == FRAMES_MAX) die("a message of more than 16 frames");
    if (!(at = cut(bytes, len, at, &frames[count++], &flags))) return 0;
  }
  if (flags & COMMAND) on_command(c, &frames[0]);
  else on_message(c, frames, count);
  return at;
}

const protocol eventmq = {"eventmq", open_conn, submit, take};
