// The request asks "bff" over TCP, which asks "accounts" over TCP, which sleeps in a Unix datagram
// of "vault"; vault reads slowly (it sleeps).
#include "zoo.h"
static int listener(struct sockaddr_in *a) {
    socklen_t l = sizeof *a;
    memset(a, 0, l);
    a->sin_family = AF_INET;
    a->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int s = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(s, (void *)a, l) || listen(s, 8) || getsockname(s, (void *)a, &l))
        die("listen");
    return s;
}
static int dial(struct sockaddr_in *a) {
    int c = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(c, (void *)a, sizeof *a))
        die("connect");
    return c;
}
int main(void) {
    zoo_init("46-tcp-chain");
    name("portal");
    struct sockaddr_in a, b;
    char x[64];
    int s1 = listener(&a), s2 = listener(&b), u[2];
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, u))
        die("socketpair");
    pid_t k[3];
    if (!(k[0] = fork())) {
        name("bff");
        close(u[0]);
        close(u[1]);
        int c = accept(s1, 0, 0), d = dial(&b);
        while (read(c, x, 64) > 0) {
            if (write(d, "q", 1) != 1 || read(d, x, 64) <= 0 || write(c, "r", 1) != 1)
                break;
        }
        _exit(0);
    }
    if (!(k[1] = fork())) {
        name("accounts");
        close(u[1]);
        int c = accept(s2, 0, 0);
        while (read(c, x, 64) > 0) {
            if (write(u[0], "q", 1) != 1 || read(u[0], x, 64) <= 0 || write(c, "r", 1) != 1)
                break;
        }
        _exit(0);
    }
    if (!(k[2] = fork())) {
        name("vault");
        close(u[0]);
        while (read(u[1], x, 64) > 0) {
            msleep(400);
            if (write(u[1], "k", 1) != 1)
                break;
        }
        _exit(0);
    }
    truth("\"culprit_pid\":%d", (int)k[2]);
    int c = dial(&a);
    msleep(30);
    req_begin();
    if (write(c, "q", 1) != 1 || read(c, x, 64) != 1)
        die("rpc");
    req_end();
    for (int i = 0; i < 3; i++) {
        kill(k[i], SIGKILL);
        waitpid(k[i], 0, 0);
    }
    zoo_done();
}
