/* Closed-loop load for a job server, one epoll thread, so that two servers can be compared.
 *
 *   load PROTOCOL PORT PRODUCERS CONSUMERS [NAME=VALUE]...
 *
 *   jobs=N seconds=S   submit until either is reached, then wait for what is in flight
 *   warm-up=S          the same before that, on the same connections, for so long and uncounted
 *   pid=N              the server's process, whose processor time is told
 *   patience=S         an error when nothing moves for so long, 20 s unless told
 *   rate=N             at most so many submissions a second, over all producers
 *   depth=N            submissions that each producer keeps in flight (not MemoDB, EventMQ)
 *   slots=N            jobs that each consumer takes at once (MemoDB, EventMQ)
 *   payload=BYTES      of each job
 *   queue=NAME         queue, function or service
 *   worker-port=PORT   where consumers connect, if not where producers do
 *   silent=1           the server leaves some submissions unanswered: go on when the job has run
 *
 * SIGTERM ends it like a time that is over.
 *
 * Prints jobs/s from the first submission to the last completion, and p50, p99 and the longest of the
 * times from a submission to its answer.
 */
#define _GNU_SOURCE
#include "load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { LONG_WAIT_S = 3, READ_ROOM = 1 << 16, EVENTS = 512 };
enum { OPENING, WARMING_UP, MEASURING };

struct options options = {.patience = 20, .depth = 1, .slots = 1, .payload = 64, .queue = "bench"};
conn *producers, *consumers;
long submitted, completed, unanswered, job_base;
const char *filler;

static const protocol *const PROTOCOLS[] = {&echo,    &faktory,      &faktory_beat,
                                            &gearman, &gearman_echo, &periodic,
                                            &memodb,  &eventmq,      &beanstalkd};
static const protocol *speaks;
static volatile sig_atomic_t is_asked_to_end;
static int phase, epoll_fd, ready_count, is_closing, next_producer;
static long answered, latency_room;
static float *latency; /* seconds, one for each answered submission */
static double started, cpu_before;
static conn **dirty; /* what has bytes to send */
static int dirty_count;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

void die(const char *why) {
  fprintf(stderr, "%s\n", why);
  exit(1);
}

static void *grown(void *memory, size_t size) {
  memory = realloc(memory, size);
  if (!memory) die("out of memory");
  return memory;
}

static void make_room(buffer *b, long len) {
  if (b->end + len <= b->room) return;
  if (b->start) memmove(b->bytes, b->bytes + b->start, b->end - b->start);
  b->end -= b->start;
  b->start = 0;
  if (b->end + len <= b->room) return;
  b->room = 2 * (b->end + len);
  b->bytes = grown(b->bytes, b->room);
}

void put(conn *c, const void *bytes, long len) {
  make_room(&c->out, len);
  memcpy(c->out.bytes + c->out.end, bytes, len);
  c->out.end += len;
  if (c->is_dirty) return;
  c->is_dirty = 1;
  dirty[dirty_count++] = c;
}

void put_text(conn *c, const char *text) { put(c, text, strlen(text)); }

/* Lets a producer submit what it may now. */
static void pump(conn *c) {
  while (c->in_flight < options.depth) {
    double t = now();
    double seconds = phase == WARMING_UP ? options.warm_up : options.seconds;
    int is_late = seconds && t - started > seconds;
    is_closing |= is_asked_to_end || is_late || submitted >= options.jobs;
    if (is_closing || (options.rate && submitted >= (t - started) * options.rate)) return;
    c->sent_at[c->sent_head++ % options.depth] = t;
    speaks->submit(c);
    submitted++;
    c->in_flight++;
  }
}

/* Lets every producer submit, another one first each time: a low rate is not for one alone. */
static void pump_all(void) {
  int count = options.producers;
  for (int i = 0; i < count; i++) pump(&producers[(next_producer + i) % count]);
  next_producer = (next_producer + 1) % count;
}

/* Processor time of the server so far, user and system of all its threads, in seconds; 0 if we do
 * not know which process it is. The kernel's own clock of the process: /proc counts in hundredths. */
static double server_cpu(void) {
  clockid_t clock;
  struct timespec t;
  if (!options.pid || clock_getcpuclockid(options.pid, &clock) || clock_gettime(clock, &t)) return 0;
  return t.tv_sec + t.tv_nsec * 1e-9;
}

/* Begins the warm-up or, after it or without one, what counts. */
static void begin_phase(void) {
  phase = phase == OPENING && options.warm_up ? WARMING_UP : MEASURING;
  job_base += submitted;
  submitted = completed = answered = unanswered = is_closing = 0;
  cpu_before = server_cpu();
  started = now();
  pump_all();
}

void ready(void) {
  if (++ready_count == options.producers + options.consumers) begin_phase();
}

void accepted(conn *c) {
  if (answered == latency_room) {
    latency_room = 2 * latency_room + 10000;
    latency = grown(latency, latency_room * sizeof *latency);
  }
  latency[answered++] = now() - c->sent_at[c->sent_tail++ % options.depth];
  c->in_flight--;
  pump(c);
}

static void flush(conn *c) {
  buffer *out = &c->out;
  while (out->start < out->end) {
    long n = send(c->fd, out->bytes + out->start, out->end - out->start, MSG_NOSIGNAL);
    if (n < 0 && errno == EAGAIN) break;
    if (n < 0) {
      perror("send");
      exit(1);
    }
    out->start += n;
  }
  if (out->start == out->end) out->start = out->end = 0;
  int wants_out = out->end > 0;
  if (wants_out == c->wants_out) return;
  c->wants_out = wants_out;
  struct epoll_event e = {.events = EPOLLIN | (wants_out ? EPOLLOUT : 0), .data.ptr = c};
  epoll_ctl(epoll_fd, EPOLL_CTL_MOD, c->fd, &e);
}

/* A message on one connection may let another speak: all who have something to say are flushed. */
static void flush_dirty(void) {
  while (dirty_count) {
    conn *c = dirty[--dirty_count];
    c->is_dirty = 0;
    flush(c);
  }
}

static void read_in(conn *c) {
  buffer *in = &c->in;
  make_room(in, READ_ROOM);
  long n = recv(c->fd, in->bytes + in->end, in->room - in->end, 0), size;
  if (n < 0 && errno == EAGAIN) return;
  if (n <= 0) die("closed by the server");
  in->end += n;
  while (in->start < in->end &&
         (size = speaks->take(c, in->bytes + in->start, in->end - in->start)) > 0)
    in->start += size;
  if (in->start == in->end) in->start = in->end = 0;
}

static void open_conn(conn *c, int port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  c->sent_at = grown(NULL, options.depth * sizeof *c->sent_at);
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
}

static void open_all(void) {
  int count = options.producers + options.consumers;
  conn *all = calloc(count, sizeof *all);
  dirty = calloc(count, sizeof *dirty);
  if (!all || !dirty) die("out of memory");
  producers = all;
  consumers = all + options.producers;
  for (int i = 0; i < count; i++) {
    conn *c = &all[i];
    c->is_consumer = i >= options.producers;
    c->number = c->is_consumer ? i - options.producers : i;
    open_conn(c, c->is_consumer && options.worker_port ? options.worker_port : options.port);
  }
  for (int i = 0; i < count && speaks->open; i++) speaks->open(&all[i]);
}

/* Waits for an event, at most until the rate allows another submission: one by one, not in bursts
 * between which the server would have nothing to do. */
static void await_due(void) {
  int is_free = 0;
  for (int i = 0; i < options.producers && !is_closing; i++)
    is_free |= producers[i].in_flight < options.depth;
  double left = is_free ? started + (submitted + 1) / options.rate - now() : LONG_WAIT_S;
  left = left < 0 ? 0 : left < LONG_WAIT_S ? left : LONG_WAIT_S;
  struct timespec timeout = {left, (left - (long)left) * 1e9};
  struct pollfd any = {.fd = epoll_fd, .events = POLLIN};
  ppoll(&any, 1, &timeout, NULL);
}

static int is_over(void) {
  return is_closing && answered == submitted && (!options.consumers || completed >= submitted);
}

static void run(void) {
  struct epoll_event events[EVENTS];
  double last_progress = now();
  long progress = -1;
  while (1) {
    if (is_over() && phase == MEASURING) return;
    if (is_over()) begin_phase();
    flush_dirty();
    if (options.rate && phase) await_due();
    int n = epoll_wait(epoll_fd, events, EVENTS, options.rate && phase ? 0 : 1000 * LONG_WAIT_S);
    /* Not "nothing was heard": an idle worker hears from the server, job or no job. */
    if (answered + completed + ready_count != progress) {
      progress = answered + completed + ready_count;
      last_progress = now();
    } else if (now() - last_progress > options.patience) {
      fprintf(stderr, "stalled: ready=%d submitted=%ld answered=%ld completed=%ld\n", ready_count,
              submitted, answered, completed);
      exit(3);
    }
    for (int i = 0; i < n; i++) {
      conn *c = events[i].data.ptr;
      if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) read_in(c);
      if (events[i].events & EPOLLOUT) flush(c);
      flush_dirty();
    }
    if (options.rate && phase) pump_all();
  }
}

static int by_size(const void *a, const void *b) {
  float x = *(float *)a, y = *(float *)b;
  return (x > y) - (x < y);
}

static void usage(void) {
  die("usage: load PROTOCOL PORT PRODUCERS CONSUMERS [jobs=N] [seconds=S] [warm-up=S] [pid=N]\n"
      "       [patience=S] [rate=N] [depth=N] [slots=N] [payload=BYTES] [queue=NAME]\n"
      "       [worker-port=PORT] [silent=1]");
}

static void set_option(const char *word) {
  const char *value = strchr(word, '=');
  if (!value) usage();
  int len = value++ - word;
#define IS(name) (len == sizeof name - 1 && !memcmp(word, name, len))
  if (IS("jobs")) options.jobs = atol(value);
  else if (IS("seconds")) options.seconds = atof(value);
  else if (IS("warm-up")) options.warm_up = atof(value);
  else if (IS("patience")) options.patience = atof(value);
  else if (IS("pid")) options.pid = atoi(value);
  else if (IS("rate")) options.rate = atof(value);
  else if (IS("depth")) options.depth = atoi(value);
  else if (IS("slots")) options.slots = atoi(value);
  else if (IS("payload")) options.payload = atol(value);
  else if (IS("queue")) options.queue = value;
  else if (IS("worker-port")) options.worker_port = atoi(value);
  else if (IS("silent")) options.silent = atoi(value);
  else usage();
#undef IS
}

static void parse_options(int argc, char **argv) {
  if (argc < 5) usage();
  for (unsigned i = 0; i < sizeof PROTOCOLS / sizeof *PROTOCOLS; i++)
    if (!strcmp(PROTOCOLS[i]->name, argv[1])) speaks = PROTOCOLS[i];
  if (!speaks) usage();
  options.port = atoi(argv[2]);
  options.producers = atoi(argv[3]);
  options.consumers = atoi(argv[4]);
  for (int i = 5; i < argc; i++) set_option(argv[i]);
  if (!options.jobs && !options.seconds) usage();
  if (!options.jobs) options.jobs = (1UL << 63) - 1;
  if (options.producers < 1 || options.depth < 1 || options.depth > DEPTH_MAX) usage();
  if (options.payload < 0 || options.payload > PAYLOAD_MAX || strlen(options.queue) > 20) usage();
}

static void end(int signal) {
  (void)signal;
  is_asked_to_end = 1;
}

int main(int argc, char **argv) {
  parse_options(argc, argv);
  signal(SIGTERM, end);
  char *letters = grown(NULL, options.payload + 1);
  memset(letters, 'x', options.payload);
  letters[options.payload] = 0;
  filler = letters;
  /* A thousand ids for each millisecond: runs that follow each other never share one. */
  job_base = (long)(now() * 1000) % 100000000 * 1000;
  epoll_fd = epoll_create1(0);
  open_all();
  run();

  double took = now() - started, cpu = server_cpu() - cpu_before;
  if (!answered) die("nothing was submitted");
  qsort(latency, answered, sizeof *latency, by_size);
  printf("jobs=%ld jobs_per_s=%.1f p50_ms=%.3f p99_ms=%.3f max_ms=%.3f cpu_us=%.2f unanswered=%ld\n",
         submitted, submitted / took, latency[answered / 2] * 1e3,
         latency[(long)(answered * .99)] * 1e3, latency[answered - 1] * 1e3, cpu / submitted * 1e6,
         unanswered);
  return 0;
}
