// The request ends a worker and waits for it (wait4), which first gives back 600 MiB of memory as
// it exits.
#include "zoo.h"
int main(void) {
    zoo_init("57-exit");
    name("supervisor");
    int r[2];
    char x;
    if (pipe(r))
        die("pipe");
    pid_t k = fork();
    if (!k) {
        name("bigcache");
        size_t n = 600ul << 20;
        char *m = mmap(0, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (m == MAP_FAILED)
            _exit(1);
        madvise(m, n, MADV_NOHUGEPAGE);
        for (size_t i = 0; i < n; i += 4096)
            m[i] = 1;
        if (write(r[1], "x", 1) != 1)
            _exit(1);
        pause();
    }
    if (read(r[0], &x, 1) != 1)
        die("read");
    truth("\"culprit_pid\":%d", (int)k);
    req_begin();
    kill(k, SIGTERM);
    waitpid(k, 0, 0);
    req_end();
    zoo_done();
}
