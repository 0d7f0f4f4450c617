// The request writes to a file system that "snapbackup" has frozen (FIFREEZE) for 400 ms.
#include "zoo.h"
#include <sys/ioctl.h>
#include <linux/fs.h>
int main(void) {
    zoo_init("59-fsfreeze");
    name("uploads");
    char p[512], x;
    int r[2];
    if (pipe(r))
        die("pipe");
    snprintf(p, sizeof p, "%s/photo.raw", env("ZOO_SLOW", "slow"));
    int fd = open(p, O_RDWR | O_CREAT, 0600);
    if (fd < 0)
        die(p);
    if (write(fd, "a", 1) != 1)
        die("write");
    fsync(fd);
    pid_t k = fork();
    if (!k) {
        name("snapbackup");
        int d = open(env("ZOO_SLOW", "slow"), O_RDONLY | O_DIRECTORY);
        if (d < 0 || ioctl(d, FIFREEZE, 0)) {
            x = 'e';
            write(r[1], &x, 1);
            _exit(1);
        }
        write(r[1], "x", 1);
        msleep(400);
        ioctl(d, FITHAW, 0);
        _exit(0);
    }
    truth("\"culprit_pid\":%d", (int)k);
    if (read(r[0], &x, 1) != 1 || x != 'x')
        lacking("FIFREEZE");
    req_begin();
    if (write(fd, "b", 1) != 1)
        die("write");
    req_end();
    waitpid(k, 0, 0);
    zoo_done();
}
