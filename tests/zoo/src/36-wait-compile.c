// The request waits for a child, "compile", which computes in a child of its own, "cc-stage".
#include "zoo.h"
__attribute__((noinline)) void optimize_function(void) { burn(400); }
int main(void) {
    zoo_init("36-wait-compile");
    name("ci-runner");
    req_begin();
    pid_t k = fork();
    if (!k) {
        name("compile");
        pid_t g = fork();
        if (!g) {
            name("cc-stage");
            optimize_function();
            _exit(0);
        }
        waitpid(g, 0, 0);
        _exit(0);
    }
    waitpid(k, 0, 0);
    req_end();
    truth("\"child_pid\":%d", (int)k);
    zoo_done();
}
