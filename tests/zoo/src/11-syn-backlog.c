// The request connects to a server whose queue of connections is full, as "acceptor" sleeps: the
// first SYN is dropped, and sent again after 1 s.
#include "zoo.h"
int main(void) {
    zoo_init("11-syn-backlog");
    name("webhook");
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t l = sizeof a;
    int go[2], told[2], f[2];
    char x;
    if (pipe(go) || pipe(told))
        die("pipe");
    pid_t k = fork();
    if (!k) {
        name("acceptor");
        int s = socket(AF_INET, SOCK_STREAM, 0);
        if (bind(s, (void *)&a, sizeof a) || listen(s, 1) || getsockname(s, (void *)&a, &l))
            _exit(1);
        if (write(told[1], &a.sin_port, 2) != 2 || read(go[0], &x, 1) != 1)
            _exit(1);
        msleep(500);
        for (int i = 0; i < 3; i++)
            accept(s, 0, 0);
        msleep(20);
        _exit(0);
    }
    if (read(told[0], &a.sin_port, 2) != 2)
        die("read");
    truth("\"culprit_pid\":%d,\"port\":%d", (int)k, ntohs(a.sin_port));
    for (int i = 0; i < 2; i++) {
        f[i] = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(f[i], (void *)&a, sizeof a))
            die("connect");
    }
    int c = socket(AF_INET, SOCK_STREAM, 0);
    if (write(go[1], "x", 1) != 1)
        die("write");
    req_begin();
    if (connect(c, (void *)&a, sizeof a))
        die("connect");
    req_end();
    waitpid(k, 0, 0);
    zoo_done();
}
