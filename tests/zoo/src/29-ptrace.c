// "inspector" attaches to the request's process by ptrace, and lets it go after 400 ms.
#include "zoo.h"
#include <sys/ptrace.h>
int main(void) {
    zoo_init("29-ptrace");
    name("payments");
    int r[2];
    char x;
    if (pipe(r))
        die("pipe");
    pid_t p = getpid();
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    pid_t k = fork();
    if (!k) {
        name("inspector");
        if (read(r[0], &x, 1) != 1)
            _exit(1);
        msleep(50);
        int st;
        if (ptrace(PTRACE_ATTACH, p, 0, 0))
            _exit(2);
        waitpid(p, &st, 0);
        msleep(400);
        ptrace(PTRACE_DETACH, p, 0, 0);
        _exit(0);
    }
    truth("\"culprit_pid\":%d", (int)k);
    if (write(r[1], "x", 1) != 1)
        die("write");
    req_begin();
    burn(120);
    req_end();
    waitpid(k, 0, 0);
    zoo_done();
}
