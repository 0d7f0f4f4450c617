// The request sends 4 MiB over loopback TCP to "sink", which does not read for 500 ms (it sleeps).
#include "zoo.h"
int main(void) {
    zoo_init("42-full-socket");
    name("replica");
    static char b[1 << 20];
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t l = sizeof a;
    int z = 65536;
    int s = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(s, SOL_SOCKET, SO_RCVBUF, &z, sizeof z);
    if (bind(s, (void *)&a, sizeof a) || listen(s, 8) || getsockname(s, (void *)&a, &l))
        die("listen");
    pid_t k = fork();
    if (!k) {
        name("sink");
        int c = accept(s, 0, 0);
        msleep(500);
        while (recv(c, b, sizeof b, 0) > 0)
            ;
        _exit(0);
    }
    close(s);
    truth("\"culprit_pid\":%d", (int)k);
    int c = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(c, SOL_SOCKET, SO_SNDBUF, &z, sizeof z);
    if (connect(c, (void *)&a, sizeof a))
        die("connect");
    req_begin();
    for (int i = 0; i < 4; i++)
        if (send(c, b, sizeof b, 0) < 0)
            die("send");
    req_end();
    close(c);
    waitpid(k, 0, 0);
    zoo_done();
}
