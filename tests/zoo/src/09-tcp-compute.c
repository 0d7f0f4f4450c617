// The request asks a server on loopback TCP, "pricing", which computes for 400 ms.
#include "zoo.h"
__attribute__((noinline)) void simulate_prices(void) { burn(400); }
int main(void) {
    zoo_init("09-tcp-compute");
    name("basket");
    char b[64];
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t l = sizeof a;
    int s = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(s, (void *)&a, sizeof a) || listen(s, 8) || getsockname(s, (void *)&a, &l))
        die("listen");
    pid_t k = fork();
    if (!k) {
        name("pricing");
        int c = accept(s, 0, 0);
        while (recv(c, b, sizeof b, 0) > 0) {
            simulate_prices();
            if (send(c, "42", 2, 0) != 2)
                break;
        }
        _exit(0);
    }
    close(s);
    truth("\"culprit_pid\":%d,\"port\":%d", (int)k, ntohs(a.sin_port));
    int c = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(c, (void *)&a, sizeof a))
        die("connect");
    msleep(20);
    req_begin();
    if (send(c, "q", 1, 0) != 1 || recv(c, b, sizeof b, 0) != 2)
        die("rpc");
    req_end();
    close(c);
    waitpid(k, 0, 0);
    zoo_done();
}
