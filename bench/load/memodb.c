/* MemoDB over NNG's request/reply: clients with one JOB in flight, workers that are contexts of one
 * connection and answer each JOB with a RESULT.
 */
#define _GNU_SOURCE
#include "load.h"

#include <arpa/inet.h>
#include <endian.h>
#include <string.h>

enum { AWAITS_GREETING, AT_WORK };
enum { READY = 1, JOB = 2, RESULT = 3, HEARTBEAT = 4 };
enum { GREETING = 8, LENGTH = 8, ID = 4, VERSION = 7, HEADER_MAX = 64 };

static const char MEMO01[] = "\x66memo01";
static unsigned last_request;

/* A request under an id that no other has: a server may know one that is sent twice by its id. */
static unsigned put_request(conn *c, const char *header, int header_len, long payload) {
  if (!last_request) last_request = job_base;
  unsigned id = ++last_request | 1U << 31, id_be = htonl(id);
  unsigned long len_be = htobe64(ID + header_len + payload);
  put(c, &len_be, LENGTH);
  put(c, &id_be, ID);
  put(c, header, header_len);
  put(c, filler, payload);
  return id;
}

/* The header up to its id: an array of `items`, the version, the type. */
static int begin(char *header, int items, int type) {
  header[0] = 0x80 + items;
  memcpy(header + 1, MEMO01, VERSION);
  header[1 + VERSION] = type;
  return 2 + VERSION;
}

static int add_name(char *header, int len) {
  int name_len = strlen(options.queue);
  header[len++] = 0x60 + name_len;
  memcpy(header + len, options.queue, name_len);
  return len + name_len;
}

static void submit(conn *c) {
  char header[HEADER_MAX];
  int len = begin(header, 5, JOB);
  header[len++] = 0x40;
  len = add_name(header, len);
  memcpy(header + len, "\x19\x75\x30", 3); /* 30,000 ms */
  c->request = put_request(c, header, len + 3, options.payload);
}

static void open_conn(conn *c) { put(c, "\0SP\0\0\x30\0\0", GREETING); }

static void greeted(conn *c) {
  c->state = AT_WORK;
  char header[HEADER_MAX];
  int len = begin(header, 4, READY);
  header[len++] = 0x40;
  header[len++] = (char)0x81;
  len = add_name(header, len);
  for (int i = 0; c->is_consumer && i < options.slots; i++) put_request(c, header, len, 0);
  ready();
}

/* Answers what a worker was sent, under the worker's id that came with it. */
static void work(conn *c, int type, const char *id, long len) {
  char header[HEADER_MAX];
  int id_len = len > 0 ? 1 + (id[0] & 0x1f) : 0, at = begin(header, 3, type == JOB ? RESULT : type);
  if (id_len < 1 || id_len > 24 || id_len > len || (id[0] & 0xe0) != 0x40)
    die("a worker's id is odd");
  memcpy(header + at, id, id_len);
  if (type != JOB && type != HEARTBEAT) die("a worker was sent away");
  put_request(c, header, at + id_len, 0);
  completed += type == JOB;
}

static long take(conn *c, char *bytes, long len) {
  if (c->state == AWAITS_GREETING) {
    if (len < GREETING) return 0;
    if (memcmp(bytes, "\0SP\0\0\x31\0\0", GREETING)) die("not a REP peer");
    greeted(c);
    return GREETING;
  }
  unsigned long size_be;
  unsigned id_be;
  if (len < LENGTH) return 0;
  memcpy(&size_be, bytes, LENGTH);
  long size = LENGTH + (long)be64toh(size_be);
  if (len < size) return 0;
  char *header = bytes + LENGTH + ID;
  if (size < LENGTH + ID + 3 + VERSION || memcmp(header + 1, MEMO01, VERSION)) die("not memo01");
  int type = header[1 + VERSION];
  memcpy(&id_be, bytes + LENGTH, ID);
  if (c->is_consumer) {
    work(c, type, header + 2 + VERSION, bytes + size - (header + 2 + VERSION));
  } else if (ntohl(id_be) == c->request) {
    if (type != RESULT) die("a client got something other than a RESULT");
    accepted(c);
  }
  return size;
}

const protocol memodb = {"memodb", open_conn, submit, take};
