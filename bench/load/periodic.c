/* Periodic in today's dialect: SUBMIT_JOB, answered with SUCCESS, then GRAB_JOB and WORK_DONE. */
#define _GNU_SOURCE
#include "load.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

enum { AWAITS_WELCOME, AWAITS_CAN_DO, AT_WORK };
enum { CLIENT = 1, WORKER = 2 };
enum { GRAB_JOB = 1, WORK_DONE = 3, JOB_ASSIGN = 5, CAN_DO = 7, SUBMIT_JOB = 13, SUCCESS = 16 };
enum { HEADER = 12, ID = 4, HANDLE_MAX = 512 };

static unsigned crc_table[256];

static unsigned crc_of(unsigned crc, const void *bytes, long len) {
  if (!crc_table[1])
    for (unsigned i = 0; i < 256; i++) {
      unsigned value = i;
      for (int bit = 0; bit < 8; bit++) value = value >> 1 ^ (value & 1 ? 0xedb88320 : 0);
      crc_table[i] = value;
    }
  const unsigned char *at = bytes;
  crc = ~crc;
  while (len--) crc = crc >> 8 ^ crc_table[(crc ^ *at++) & 0xff];
  return ~crc;
}

/* A frame whose payload is `head`, `body` of the filler and `tail`. */
static void put_frame(conn *c, const char *head, long len, long body, const char *tail, long rest) {
  char header[HEADER] = "\0REQ";
  unsigned size_be = htonl(len + body + rest);
  unsigned crc = crc_of(crc_of(crc_of(0, head, len), filler, body), tail, rest);
  unsigned crc_be = htonl(crc);
  memcpy(header + 4, &size_be, 4);
  memcpy(header + 8, &crc_be, 4);
  put(c, header, HEADER);
  put(c, head, len);
  put(c, filler, body);
  put(c, tail, rest);
}

/* Ids need only differ between what one connection has in flight. A worker's first must not be of
 * letters and digits alone: such are those of old clients that want no answer. */
static void say(conn *c, const char *id, int command, const char *args, long len) {
  char head[ID + 1 + HANDLE_MAX];
  memcpy(head, id, ID);
  head[ID] = command;
  memcpy(head + ID + 1, args, len);
  put_frame(c, head, ID + 1 + len, 0, "", 0);
}

static void open_conn(conn *c) {
  char kind = c->is_consumer ? WORKER : CLIENT;
  put_frame(c, &kind, 1, 0, "", 0);
}

static void submit(conn *c) {
  char head[128] = "subm", name[32];
  int queue_len = strlen(options.queue), name_len = sprintf(name, "load%012ld", job_base + submitted);
  int at = ID;
  unsigned size_be = htonl(options.payload);
  head[at++] = SUBMIT_JOB;
  head[at++] = queue_len;
  memcpy(head + at, options.queue, queue_len);
  at += queue_len;
  head[at++] = name_len;
  memcpy(head + at, name, name_len);
  at += name_len;
  memcpy(head + at, &size_be, 4);
  put_frame(c, head, at + 4, options.payload, "\0\0\0\0\0\0\0\0\0", 9); /* now; nothing more */
}

static void greeted(conn *c) {
  if (!c->is_consumer) {
    c->state = AT_WORK;
    ready();
    return;
  }
  char queue[32];
  int len = sprintf(queue, "%c%s", (int)strlen(options.queue), options.queue);
  c->state = AWAITS_CAN_DO;
  say(c, "can.", CAN_DO, queue, len);
}

/* A job's handle is its function and its name, each behind its length, as the job begins. */
static void work(conn *c, const char *job, long len) {
  const unsigned char *at = (const unsigned char *)job;
  long func = 1 + (len > 0 ? at[0] : 0), name = 1 + (len > func ? at[func] : 0);
  if (len < func + name || func + name > HANDLE_MAX) die("a job is cut short");
  say(c, "done", WORK_DONE, job, func + name);
}

static void on_answer(conn *c, const char *id, int command, const char *args, long len) {
  if (!c->is_consumer) {
    if (command != SUCCESS) die("a submission was not answered with SUCCESS");
    accepted(c);
  } else if (command == JOB_ASSIGN) {
    work(c, args, len);
  } else if (command != SUCCESS) {
    die("a worker was answered neither SUCCESS nor a job");
  } else if (!memcmp(id, "done", ID)) {
    completed++;
    say(c, "grab", GRAB_JOB, "", 0);
  } else if (c->state == AWAITS_CAN_DO) {
    c->state = AT_WORK;
    say(c, "grab", GRAB_JOB, "", 0);
    ready();
  }
}

static long take(conn *c, char *bytes, long len) {
  unsigned size_be;
  if (len < HEADER) return 0;
  memcpy(&size_be, bytes + 4, 4);
  long size = HEADER + (long)ntohl(size_be);
  if (memcmp(bytes, "\0RES", 4)) die("not a frame");
  if (len < size) return 0;
  if (c->state == AWAITS_WELCOME) greeted(c);
  else if (size < HEADER + ID + 1) die("an answer without a command");
  else on_answer(c, bytes + HEADER, bytes[HEADER + ID], bytes + HEADER + ID + 1, size - HEADER - ID - 1);
  return size;
}

const protocol periodic = {"periodic", open_conn, submit, take};
