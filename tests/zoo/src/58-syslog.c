// The request logs to a Unix datagram socket whose reader, "logsink", sleeps: its queue is full.
#include "zoo.h"
int main(void) {
    zoo_init("58-syslog");
    name("authd");
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof a.sun_path, "%s/log-%d", env("ZOO_OUT", "."), (int)getpid());
    unlink(a.sun_path);
    char b[2048] = "x";
    int go[2];
    if (pipe(go))
        die("pipe");
    int l = socket(AF_UNIX, SOCK_DGRAM, 0);
    if (bind(l, (void *)&a, sizeof a))
        die("bind");
    pid_t k = fork();
    if (!k) {
        name("logsink");
        if (read(go[0], b, 1) != 1)
            _exit(1);
        msleep(450);
        for (int i = 0; i < 400; i++)
            if (recv(l, b, sizeof b, MSG_DONTWAIT) < 0)
                break;
        msleep(50);
        _exit(0);
    }
    truth("\"culprit_pid\":%d", (int)k);
    int s = socket(AF_UNIX, SOCK_DGRAM, 0);
    if (connect(s, (void *)&a, sizeof a))
        die("connect");
    while (send(s, b, sizeof b, MSG_DONTWAIT) > 0)
        ;
    if (write(go[1], "x", 1) != 1)
        die("write");
    msleep(10);
    req_begin();
    if (send(s, b, sizeof b, 0) < 0)
        die("send");
    req_end();
    waitpid(k, 0, 0);
    unlink(a.sun_path);
    zoo_done();
}
