/* Gearman. Background jobs: SUBMIT_JOB_BG, then GRAB_JOB and WORK_COMPLETE. Foreground, as
 * "gearman-echo": SUBMIT_JOB, answered when WORK_COMPLETE has come back.
 */
#define _GNU_SOURCE
#include "load.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

enum { CAN_DO = 1, PRE_SLEEP = 4, NOOP = 6, SUBMIT_JOB = 7, JOB_CREATED = 8, GRAB_JOB = 9 };
enum { NO_JOB = 10, JOB_ASSIGN = 11, WORK_COMPLETE = 13, SUBMIT_JOB_BG = 18, HEADER = 12 };

static void put_header(conn *c, int type, long len) {
  char header[HEADER] = "\0REQ";
  unsigned type_be = htonl(type), len_be = htonl(len);
  memcpy(header + 4, &type_be, 4);
  memcpy(header + 8, &len_be, 4);
  put(c, header, HEADER);
}

static void put_packet(conn *c, int type, const char *bytes, long len) {
  put_header(c, type, len);
  put(c, bytes, len);
}

static void open_conn(conn *c) {
  if (c->is_consumer) {
    put_packet(c, CAN_DO, options.queue, strlen(options.queue));
    put_packet(c, GRAB_JOB, "", 0);
  }
  ready();
}

/* Each job has a unique id, as libgearman gives one to every background job: gearmand's stores
 * keep one row for a function and an id, so without ids they would not keep the jobs at all. */
static void submit_as(conn *c, int type) {
  char ids[64];
  int len = sprintf(ids, "%s%cload%012ld", options.queue, 0, job_base + submitted) + 1;
  put_header(c, type, len + options.payload);
  put(c, ids, len);
  put(c, filler, options.payload);
}

static void submit_background(conn *c) { submit_as(c, SUBMIT_JOB_BG); }
static void submit_foreground(conn *c) { submit_as(c, SUBMIT_JOB); }

static void work(conn *c, const char *assigned, long len) {
  char result[128];
  long handle_len = strnlen(assigned, len) + 1;
  if (handle_len + 1 > (long)sizeof result) die("a handle of more than 126 bytes");
  memcpy(result, assigned, handle_len);
  result[handle_len] = 'y';
  put_packet(c, WORK_COMPLETE, result, handle_len + 1);
  put_packet(c, GRAB_JOB, "", 0);
  completed++;
}

static long take_packet(conn *c, char *bytes, long len, int answer) {
  if (len < HEADER) return 0;
  unsigned type_be, size_be;
  memcpy(&type_be, bytes + 4, 4);
  memcpy(&size_be, bytes + 8, 4);
  int type = ntohl(type_be);
  long size = HEADER + (long)ntohl(size_be);
  if (len < size) return 0;
  if (!c->is_consumer) {
    if (type == answer) accepted(c);
    else if (type != JOB_CREATED) die("a producer got a packet that is no answer");
  } else if (type == NOOP) {
    put_packet(c, GRAB_JOB, "", 0);
  } else if (type == NO_JOB) {
    put_packet(c, PRE_SLEEP, "", 0);
  } else if (type == JOB_ASSIGN) {
    work(c, bytes + HEADER, size - HEADER);
  } else {
    die("a consumer got a packet that is no job");
  }
  return size;
}

static long take_background(conn *c, char *bytes, long len) {
  return take_packet(c, bytes, len, JOB_CREATED);
}
static long take_foreground(conn *c, char *bytes, long len) {
  return take_packet(c, bytes, len, WORK_COMPLETE);
}

const protocol gearman = {"gearman", open_conn, submit_background, take_background};
const protocol gearman_echo = {"gearman-echo", open_conn, submit_foreground, take_foreground};
