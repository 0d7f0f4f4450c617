// The request asks "geodns" over UDP on loopback, which computes 350 ms before it answers.
#include "zoo.h"
__attribute__((noinline)) void build_answer(void) { burn(350); }
int main(void) {
    zoo_init("63-udp");
    name("resolver");
    char b[64];
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, f;
    socklen_t l = sizeof a, n = sizeof f;
    int s = socket(AF_INET, SOCK_DGRAM, 0);
    if (bind(s, (void *)&a, l) || getsockname(s, (void *)&a, &l))
        die("bind");
    pid_t k = fork();
    if (!k) {
        name("geodns");
        if (recvfrom(s, b, 64, 0, (void *)&f, &n) < 0)
            _exit(1);
        build_answer();
        sendto(s, "r", 1, 0, (void *)&f, n);
        _exit(0);
    }
    truth("\"culprit_pid\":%d", (int)k);
    int c = socket(AF_INET, SOCK_DGRAM, 0);
    msleep(20);
    req_begin();
    sendto(c, "q", 1, 0, (void *)&a, l);
    if (recvfrom(c, b, 64, 0, 0, 0) < 0)
        die("recv");
    req_end();
    waitpid(k, 0, 0);
    zoo_done();
}
