// The request waits for a record lock that "exporter" holds, which "oncall" has stopped by SIGSTOP
// for 500 ms.
#include "zoo.h"
int main(void) {
    zoo_init("38-stopped-holder");
    name("invoices");
    char p[512], x;
    int r[2];
    if (pipe(r))
        die("pipe");
    snprintf(p, sizeof p, "%s/invoices.db", env("ZOO_OUT", "."));
    struct flock f = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 100};
    pid_t k = fork();
    if (!k) {
        name("exporter");
        int d = open(p, O_RDWR | O_CREAT, 0644);
        fcntl(d, F_SETLKW, &f);
        if (write(r[1], "x", 1) != 1)
            _exit(1);
        spin(60);
        f.l_type = F_UNLCK;
        fcntl(d, F_SETLK, &f);
        msleep(20);
        _exit(0);
    }
    int d = open(p, O_RDWR | O_CREAT, 0644);
    if (read(r[0], &x, 1) != 1)
        die("read");
    pid_t o = fork();
    if (!o) {
        name("oncall");
        msleep(5);
        kill(k, SIGSTOP);
        msleep(500);
        kill(k, SIGCONT);
        _exit(0);
    }
    truth("\"holder_pid\":%d,\"culprit_pid\":%d", (int)k, (int)o);
    req_begin();
    fcntl(d, F_SETLKW, &f);
    req_end();
    waitpid(o, 0, 0);
    waitpid(k, 0, 0);
    zoo_done();
}
