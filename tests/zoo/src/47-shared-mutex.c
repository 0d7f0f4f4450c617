// The request waits for a mutex in shared memory that "ledgerd", another process, holds while it
// reads a slow disk (page cache misses).
#include "zoo.h"
int main(void) {
    zoo_init("47-shared-mutex");
    name("teller");
    char p[512], b[4096], x;
    int r[2];
    if (pipe(r))
        die("pipe");
    pthread_mutex_t *m = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t a;
    pthread_mutexattr_init(&a);
    pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(m, &a);
    snprintf(p, sizeof p, "%s/catalog.bin", env("ZOO_SLOW", "slow"));
    pid_t k = fork();
    if (!k) {
        name("ledgerd");
        int fd = open(p, O_RDONLY);
        if (fd < 0)
            _exit(1);
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
        pthread_mutex_lock(m);
        if (write(r[1], "x", 1) != 1)
            _exit(1);
        for (int i = 0; i < 8; i++)
            pread(fd, b, 4096, i * 524288);
        pthread_mutex_unlock(m);
        msleep(20);
        _exit(0);
    }
    truth("\"culprit_pid\":%d", (int)k);
    if (read(r[0], &x, 1) != 1)
        die("read");
    req_begin();
    pthread_mutex_lock(m);
    pthread_mutex_unlock(m);
    req_end();
    waitpid(k, 0, 0);
    zoo_done();
}
