// The request waits for a lock of a file (flock) that "archiver", another process, holds while it
// is in fsync of another file on a slow disk.
#include "zoo.h"
int main(void) {
    zoo_init("37-flock-fsync");
    name("journald");
    char p[512], q[512], b[4096] = "x";
    int r[2];
    if (pipe(r))
        die("pipe");
    snprintf(p, sizeof p, "%s/journal.lock", env("ZOO_OUT", "."));
    snprintf(q, sizeof q, "%s/archive.dat", env("ZOO_SLOW", "slow"));
    pid_t k = fork();
    if (!k) {
        name("archiver");
        int l = open(p, O_RDWR | O_CREAT, 0644), f = open(q, O_RDWR | O_CREAT, 0644);
        flock(l, LOCK_EX);
        for (int i = 0; i < 8; i++)
            pwrite(f, b, sizeof b, i * 65536);
        if (write(r[1], "x", 1) != 1)
            _exit(1);
        fsync(f);
        flock(l, LOCK_UN);
        msleep(20);
        _exit(0);
    }
    int l = open(p, O_RDWR | O_CREAT, 0644);
    truth("\"culprit_pid\":%d", (int)k);
    char x;
    if (read(r[0], &x, 1) != 1)
        die("read");
    req_begin();
    flock(l, LOCK_EX);
    req_end();
    waitpid(k, 0, 0);
    zoo_done();
}
