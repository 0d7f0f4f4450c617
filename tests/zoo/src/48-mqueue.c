// The request waits for a message of a POSIX queue; "scorer", which sends it, computes first.
#include "zoo.h"
#include <mqueue.h>
__attribute__((noinline)) void score_risk(void) { burn(350); }
int main(void) {
    zoo_init("48-mqueue");
    name("approvals");
    char n[64], b[64];
    snprintf(n, sizeof n, "/zoo-%d", (int)getpid());
    struct mq_attr at = {.mq_maxmsg = 2, .mq_msgsize = 64};
    mqd_t q = mq_open(n, O_RDWR | O_CREAT, 0600, &at);
    if (q < 0)
        lacking("mq_open");
    int r[2];
    if (pipe(r))
        die("pipe");
    pid_t k = fork();
    if (!k) {
        name("scorer");
        if (read(r[0], b, 1) != 1)
            _exit(1);
        score_risk();
        mq_send(q, "ok", 2, 0);
        _exit(0);
    }
    truth("\"culprit_pid\":%d", (int)k);
    msleep(10);
    req_begin();
    if (write(r[1], "x", 1) != 1)
        die("write");
    if (mq_receive(q, b, 64, 0) < 0)
        die("mq_receive");
    req_end();
    waitpid(k, 0, 0);
    mq_unlink(n);
    zoo_done();
}
