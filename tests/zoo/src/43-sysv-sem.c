// The request waits for a semaphore (System V) that "billing-batch", another process, has, and
// which reads a slow disk meanwhile.
#include "zoo.h"
#include <sys/sem.h>
int main(void) {
    zoo_init("43-sysv-sem");
    name("tariffs");
    char p[512], x;
    void *b;
    int r[2];
    if (pipe(r) || posix_memalign(&b, 4096, 4096))
        die("pipe");
    int s = semget(IPC_PRIVATE, 1, 0600);
    if (s < 0)
        die("semget");
    struct sembuf up = {0, 1, 0}, down = {0, -1, 0};
    semop(s, &up, 1);
    snprintf(p, sizeof p, "%s/catalog.bin", env("ZOO_SLOW", "slow"));
    pid_t k = fork();
    if (!k) {
        name("billing-batch");
        int fd = open(p, O_RDONLY | O_DIRECT);
        if (fd < 0)
            _exit(1);
        semop(s, &down, 1);
        if (write(r[1], "x", 1) != 1)
            _exit(1);
        for (int i = 0; i < 8; i++)
            pread(fd, b, 4096, i * 262144);
        semop(s, &up, 1);
        msleep(20);
        _exit(0);
    }
    truth("\"culprit_pid\":%d", (int)k);
    if (read(r[0], &x, 1) != 1)
        die("read");
    req_begin();
    semop(s, &down, 1);
    req_end();
    waitpid(k, 0, 0);
    semctl(s, 0, IPC_RMID);
    zoo_done();
}
