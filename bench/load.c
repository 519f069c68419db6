/* Closed-loop load for a job server, one epoll thread, so that two servers can be compared in one run.
 *
 *   load PROTO PORT JOBS PRODUCERS CONSUMERS [DEPTH] [PAYLOAD]
 *
 * PROTO is gearman (background jobs: SUBMIT_JOB_BG, then GRAB_JOB and WORK_COMPLETE),
 * faktory (PUSH, then FETCH and ACK) or echo (a line and the same line back: the floor that any
 * server on the same event loop could reach; use 0 consumers).
 * Each producer keeps DEPTH submissions in flight.
 * Prints jobs/s from the first submission to the last completion,
 * and the p50/p99 of a submission's round trip. Ends with an error when nothing moves for 20 s.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { DEPTH_MAX = 1000, SENT_RING = 1024, PAYLOAD_MAX = 65536, STALLED_AFTER_S = 20 };

/* Gearman packet types. */
enum { PRE_SLEEP = 4, NOOP = 6, JOB_CREATED = 8, GRAB_JOB = 9, NO_JOB = 10, JOB_ASSIGN = 11 };
enum { CAN_DO = 1, WORK_COMPLETE = 13, SUBMIT_JOB_BG = 18, PACKET_HEADER = 12 };

/* How far a Faktory connection has come. */
enum { AWAITS_HI, AWAITS_HELLO_OK, AT_WORK };

typedef struct {
  int fd, is_consumer, state, wants_out;
  int in_len, out_len, out_sent;
  int sent_head, sent_tail; /* indexes of sent_at, which is a ring: replies come in order */
  double sent_at[SENT_RING];
  char in[1 << 17];
  char out[1 << 19];
} conn;

/* Takes one whole reply from the bytes and acts on it; its size, or 0 until more bytes have come. */
typedef int (*reply_handler)(conn *c, char *data, int len);

static int depth = 1, payload_len = 64, epoll_fd;
static long jobs, jid_base, submitted, accepted, completed;
static float *latency; /* seconds, one for each accepted submission */
static void (*submit)(conn *c);

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

static void die(const char *why) {
  fprintf(stderr, "%s\n", why);
  exit(1);
}

static void put(conn *c, const void *data, int len) {
  if (c->out_len + len > (int)sizeof c->out) die("out full");
  memcpy(c->out + c->out_len, data, len);
  c->out_len += len;
}

static void put_text(conn *c, const char *text) { put(c, text, strlen(text)); }

static void put_packet(conn *c, int type, const void *data, int len) {
  char header[PACKET_HEADER];
  unsigned type_be = htonl(type), len_be = htonl(len);
  memcpy(header, "\0REQ", 4);
  memcpy(header + 4, &type_be, 4);
  memcpy(header + 8, &len_be, 4);
  put(c, header, sizeof header);
  put(c, data, len);
}

static void submit_one(conn *c) {
  if (submitted >= jobs) return;
  submit(c);
  submitted++;
  c->sent_at[c->sent_head++ % SENT_RING] = now();
}

static void on_accepted(conn *c) {
  latency[accepted++] = now() - c->sent_at[c->sent_tail++ % SENT_RING];
  submit_one(c);
}

static void start_producer(conn *c) {
  for (int i = 0; i < depth; i++) submit_one(c);
}

static void gearman_submit(conn *c) {
  char data[7 + PAYLOAD_MAX];
  memcpy(data, "bench\0", 7); /* the function, and an empty unique id */
  memset(data + 7, 'x', payload_len);
  put_packet(c, SUBMIT_JOB_BG, data, 7 + payload_len);
}

static int gearman_reply(conn *c, char *data, int len) {
  if (len < PACKET_HEADER) return 0;
  unsigned type_be, size_be;
  memcpy(&type_be, data + 4, 4);
  memcpy(&size_be, data + 8, 4);
  int type = ntohl(type_be), size = PACKET_HEADER + ntohl(size_be);
  if (len < size) return 0;
  if (!c->is_consumer) {
    if (type != JOB_CREATED) die("a producer got something other than JOB_CREATED");
    on_accepted(c);
  } else if (type == NOOP) {
    put_packet(c, GRAB_JOB, "", 0);
  } else if (type == NO_JOB) {
    put_packet(c, PRE_SLEEP, "", 0);
  } else if (type == JOB_ASSIGN) {
    char *handle = data + PACKET_HEADER, result[128];
    int handle_len = strnlen(handle, size - PACKET_HEADER) + 1;
    if (handle_len + 1 > (int)sizeof result) die("a handle of more than 126 bytes");
    memcpy(result, handle, handle_len);
    result[handle_len] = 'y';
    put_packet(c, WORK_COMPLETE, result, handle_len + 1);
    put_packet(c, GRAB_JOB, "", 0);
    completed++;
  }
  return size;
}

static void faktory_submit(conn *c) {
  char b[256 + PAYLOAD_MAX];
  int len = sprintf(b,
                    "PUSH {\"jid\":\"load%012ld\",\"jobtype\":\"bench\",\"queue\":\"bench\","
                    "\"args\":[\"",
                    jid_base + submitted);
  memset(b + len, 'x', payload_len);
  len += payload_len;
  len += sprintf(b + len, "\"]}\r\n");
  put(c, b, len);
}

static void faktory_hello(conn *c) {
  if (!c->is_consumer) {
    put_text(c, "HELLO {\"v\":2}\r\n");
    return;
  }
  char b[160];
  sprintf(b,
          "HELLO {\"v\":2,\"hostname\":\"h\",\"wid\":\"loadwid%d-%d\",\"pid\":1,\"labels\":[]}\r\n",
          getpid(), c->fd);
  put_text(c, b);
}

static int faktory_reply(conn *c, char *data, int len) {
  char *end = memmem(data, len, "\r\n", 2);
  if (!end) return 0;
  int size = end - data + 2;
  if (*data == '-') {
    fprintf(stderr, "the server says %.*s", size, data);
    exit(1);
  }
  if (c->state == AWAITS_HI) {
    faktory_hello(c);
    c->state = AWAITS_HELLO_OK;
  } else if (c->state == AWAITS_HELLO_OK) {
    c->state = AT_WORK;
    if (c->is_consumer)
      put_text(c, "FETCH bench\r\n");
    else
      start_producer(c);
  } else if (!c->is_consumer) {
    on_accepted(c);
  } else if (*data == '$' && atoi(data + 1) < 0) { /* no job within the server's wait */
    put_text(c, "FETCH bench\r\n");
  } else if (*data == '$') {
    int body_len = atoi(data + 1);
    if (len < size + body_len + 2) return 0;
    char *jid = memmem(data + size, body_len, "load", 4), b[64];
    if (!jid) die("a fetched job is not one of ours");
    sprintf(b, "ACK {\"jid\":\"%.16s\"}\r\n", jid);
    put_text(c, b);
    size += body_len + 2;
  } else { /* +OK to the ACK */
    completed++;
    put_text(c, "FETCH bench\r\n");
  }
  return size;
}

static void echo_submit(conn *c) {
  char b[PAYLOAD_MAX + 2];
  memset(b, 'x', payload_len);
  memcpy(b + payload_len, "\r\n", 2);
  put(c, b, payload_len + 2);
}

static int echo_reply(conn *c, char *data, int len) {
  char *end = memmem(data, len, "\r\n", 2);
  if (!end) return 0;
  on_accepted(c);
  return end - data + 2;
}

static void flush_out(conn *c) {
  while (c->out_sent < c->out_len) {
    int n = send(c->fd, c->out + c->out_sent, c->out_len - c->out_sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EAGAIN) break;
    if (n < 0) {
      perror("send");
      exit(1);
    }
    c->out_sent += n;
  }
  if (c->out_sent == c->out_len) c->out_sent = c->out_len = 0;
  int wants_out = c->out_len > 0;
  if (wants_out == c->wants_out) return;
  c->wants_out = wants_out;
  struct epoll_event e = {.events = EPOLLIN | (wants_out ? EPOLLOUT : 0), .data.ptr = c};
  epoll_ctl(epoll_fd, EPOLL_CTL_MOD, c->fd, &e);
}

static void read_in(conn *c, reply_handler on_reply) {
  int n = recv(c->fd, c->in + c->in_len, sizeof c->in - c->in_len, 0);
  if (n < 0 && errno == EAGAIN) return;
  if (n <= 0) die("closed by the server");
  c->in_len += n;
  int used = 0, size;
  while (used < c->in_len && (size = on_reply(c, c->in + used, c->in_len - used)) > 0) used += size;
  memmove(c->in, c->in + used, c->in_len - used);
  c->in_len -= used;
}

static conn *open_conn(int port, int is_consumer) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  conn *c = calloc(1, sizeof *c);
  if (!c) die("out of memory");
  c->is_consumer = is_consumer;
  c->fd = socket(AF_INET, SOCK_STREAM, 0);
  if (c->fd < 0 || connect(c->fd, (void *)&address, sizeof address)) {
    perror("connect");
    exit(1);
  }
  int one = 1;
  setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  fcntl(c->fd, F_SETFL, O_NONBLOCK);
  struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
  epoll_ctl(epoll_fd, EPOLL_CTL_ADD, c->fd, &e);
  return c;
}

/* In Faktory the server speaks first; elsewhere we do. */
static void open_talk(conn *c) {
  if (c->is_consumer) {
    put_packet(c, CAN_DO, "bench", 5);
    put_packet(c, GRAB_JOB, "", 0);
  } else {
    start_producer(c);
  }
  flush_out(c);
}

static int by_size(const void *a, const void *b) {
  float x = *(float *)a, y = *(float *)b;
  return (x > y) - (x < y);
}

int main(int argc, char **argv) {
  if (argc < 6) {
    fprintf(stderr,
            "usage: load gearman|faktory|echo PORT JOBS PRODUCERS CONSUMERS [DEPTH] [PAYLOAD]\n");
    return 2;
  }
  int is_faktory = !strcmp(argv[1], "faktory"), is_echo = !strcmp(argv[1], "echo");
  submit = is_faktory ? faktory_submit : is_echo ? echo_submit : gearman_submit;
  reply_handler on_reply = is_faktory ? faktory_reply : is_echo ? echo_reply : gearman_reply;
  int port = atoi(argv[2]), producers = atoi(argv[4]), consumers = atoi(argv[5]);
  jobs = atol(argv[3]);
  if (argc > 6) depth = atoi(argv[6]);
  if (argc > 7) payload_len = atoi(argv[7]);
  if (jobs < 1 || depth > DEPTH_MAX || payload_len > PAYLOAD_MAX) return 2;

  latency = malloc(jobs * sizeof *latency);
  epoll_fd = epoll_create1(0);
  conn **conns = calloc(producers + consumers, sizeof *conns);
  if (!latency || !conns) die("out of memory");
  for (int i = 0; i < producers + consumers; i++) conns[i] = open_conn(port, i >= producers);

  /* A thousand ids for each millisecond: runs that follow each other never share one. */
  jid_base = (long)(now() * 1000) % 100000000 * 1000;
  double started = now(), all_accepted = 0, last_progress = started;
  long progress = 0;
  if (!is_faktory)
    for (int i = 0; i < producers + consumers; i++) open_talk(conns[i]);

  struct epoll_event events[512];
  while ((consumers && completed < jobs) || accepted < jobs) {
    int n = epoll_wait(epoll_fd, events, 512, 3000);
    /* Not "nothing was heard": an idle FETCH is answered every two seconds, job or no job. */
    if (accepted + completed > progress) {
      progress = accepted + completed;
      last_progress = now();
    } else if (now() - last_progress > STALLED_AFTER_S) {
      fprintf(stderr, "stalled: submitted=%ld accepted=%ld completed=%ld\n", submitted, accepted,
              completed);
      return 3;
    }
    for (int i = 0; i < n; i++) {
      conn *c = events[i].data.ptr;
      if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) read_in(c, on_reply);
      flush_out(c);
    }
    if (!all_accepted && accepted >= jobs) all_accepted = now();
  }

  double took = now() - started, submit_took = all_accepted - started;
  qsort(latency, accepted, sizeof *latency, by_size);
  printf("%s jobs=%ld producers=%d consumers=%d depth=%d payload=%d: %.0f jobs/s, submit %.0f/s, "
         "submit p50 %.2f ms p99 %.2f ms\n",
         argv[1], jobs, producers, consumers, depth, payload_len, jobs / took, jobs / submit_took,
         latency[accepted / 2] * 1e3, latency[(long)(accepted * .99)] * 1e3);
  return 0;
}
