// The request starts a helper by vfork, whose child, "sandbox", sleeps before it executes a
// program.
#include "zoo.h"
int main(void) {
    zoo_init("35-vfork");
    name("scheduler");
    pid_t k;
    req_begin();
    k = vfork();
    if (!k) {
        name("sandbox");
        usleep(400000);
        execl("/bin/true", "true", (char *)0);
        _exit(1);
    }
    name("scheduler");
    req_end();
    truth("\"culprit_pid\":%d", (int)k);
    waitpid(k, 0, 0);
    zoo_done();
}
