// The request reads a socket that does not block, again and again without a pause (EAGAIN): "peer"
// answers 400 ms later.
#include "zoo.h"
int main(void) {
    zoo_init("54-again-spin");
    name("ticker");
    int s[2];
    char b[64];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, s))
        die("socketpair");
    pid_t k = fork();
    if (!k) {
        name("peer");
        close(s[0]);
        msleep(400);
        if (write(s[1], "r", 1) != 1)
            _exit(1);
        _exit(0);
    }
    close(s[1]);
    truth("\"peer_pid\":%d", (int)k);
    req_begin();
    while (recv(s[0], b, 64, 0) < 0 && errno == EAGAIN)
        ;
    req_end();
    waitpid(k, 0, 0);
    zoo_done();
}
