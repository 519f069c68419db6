/* What the protocols of the load generator share: connections, and the counts of a closed loop. */
#ifndef LOAD_H
#define LOAD_H

enum { PAYLOAD_MAX = 64 << 20, DEPTH_MAX = 1000 };

typedef struct {
  char *bytes;
  long start, end, room; /* what is between start and end counts */
} buffer;

typedef struct {
  int fd, is_consumer, wants_out, is_dirty;
  int state;     /* how far the greeting has come, as the protocol counts */
  int number;    /* among the producers, or among the consumers */
  int in_flight; /* submissions of a producer that have no answer yet */
  int sent_head, sent_tail;
  double *sent_at; /* a ring of `depth` times: answers come in order where depth is above 1 */
  unsigned request; /* of MemoDB and EventMQ: which one is in flight */
  int has_reply, has_run;
  buffer in, out;
} conn;

typedef struct {
  const char *name;
  void (*open)(conn *c);   /* what we say on a new connection; NULL where the server speaks first */
  void (*submit)(conn *c); /* puts one job */
  /* Acts on one whole message at the start of the bytes; its size, or 0 until more have come. */
  long (*take)(conn *c, char *bytes, long len);
} protocol;

/* The command line. */
struct options {
  int port, producers, consumers;
  long jobs;
  double seconds, warm_up, rate; /* 0: no limit, none, no limit */
  double patience;
  int depth, slots, worker_port; /* slots: jobs that a consumer takes at once on its connection */
  int pid;                       /* the server's, or 0 */
  int silent;                    /* the server does not answer every submission */
  long payload;
  const char *queue;
};
extern struct options options;

extern conn *producers, *consumers;
extern long submitted, completed, unanswered, job_base;
extern const char *filler; /* as many letters as the payload has */

extern const protocol echo, faktory, faktory_beat, gearman, gearman_echo, periodic, memodb, eventmq;
extern const protocol beanstalkd;

/* Says that one more connection is through its greeting; producers begin when all are. */
void ready(void);
/* Counts the answer to a producer's oldest submission, and lets it submit the next. */
void accepted(conn *c);

void put(conn *c, const void *bytes, long len);
void put_text(conn *c, const char *text);
_Noreturn void die(const char *why);

#endif
