// The request flushes 4 KiB to a slow disk, after the 24 requests of "backup", a process that
// flushes its own file there.
#include "zoo.h"
int main(void) {
    zoo_init("05-writeback");
    name("ledger");
    char p[512], q[512], b[4096] = "x";
    int go[2];
    if (pipe(go))
        die("pipe");
    snprintf(p, sizeof p, "%s/ledger.db", env("ZOO_SLOW", "slow"));
    snprintf(q, sizeof q, "%s/backup.tar", env("ZOO_SLOW", "slow"));
    int fd = open(p, O_RDWR | O_CREAT, 0644);
    if (fd < 0)
        die(p);
    int f = open(q, O_RDWR | O_CREAT, 0644);
    if (f < 0)
        die(q);
    for (int i = 0; i < 24; i++)
        if (pwrite(f, b, sizeof b, i * 65536) < 0)
            die("pwrite");
    if (pwrite(fd, b, sizeof b, 0) < 0)
        die("pwrite");
    fsync(fd);
    fsync(f);
    pid_t k = fork();
    if (!k) {
        name("backup");
        for (int i = 0; i < 24; i++)
            pwrite(f, b, sizeof b, i * 65536);
        if (write(go[1], "x", 1) != 1)
            _exit(1);
        fdatasync(f);
        _exit(0);
    }
    truth("\"culprit_pid\":%d", (int)k);
    char c;
    if (read(go[0], &c, 1) != 1)
        die("read");
    msleep(30);
    if (pwrite(fd, b, sizeof b, 0) < 0)
        die("pwrite");
    req_begin();
    fdatasync(fd);
    req_end();
    waitpid(k, 0, 0);
    zoo_done();
}
