// The request reads a FIFO whose writer, "sensor", sleeps before it writes.
#include "zoo.h"
int main(void) {
    zoo_init("13-fifo");
    name("dashboard");
    char p[512], b[64];
    snprintf(p, sizeof p, "%s/readings.fifo", env("ZOO_OUT", "."));
    unlink(p);
    if (mkfifo(p, 0600))
        die(p);
    pid_t k = fork();
    if (!k) {
        name("sensor");
        int fd = open(p, O_WRONLY);
        msleep(450);
        if (write(fd, "21.5", 4) != 4)
            _exit(1);
        _exit(0);
    }
    truth("\"culprit_pid\":%d", (int)k);
    int fd = open(p, O_RDONLY);
    if (fd < 0)
        die(p);
    req_begin();
    if (read(fd, b, sizeof b) != 4)
        die("read");
    req_end();
    waitpid(k, 0, 0);
    zoo_done();
}
