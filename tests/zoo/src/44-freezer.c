// "snapshotd" freezes the control group of the request's process for 400 ms.
#include "zoo.h"
static void put(const char *d, const char *f, const char *v) {
    char p[512];
    snprintf(p, sizeof p, "%s/%s", d, f);
    int fd = open(p, O_WRONLY);
    if (fd < 0 || write(fd, v, strlen(v)) < 0)
        lacking(p);
    close(fd);
}
int main(void) {
    zoo_init("44-freezer");
    name("sessions");
    char d[256], v[32];
    int v1 = !access("/sys/fs/cgroup/freezer", F_OK);
    snprintf(d, sizeof d, "%s/zoo-sessions-%d", v1 ? "/sys/fs/cgroup/freezer" : "/sys/fs/cgroup",
             (int)getpid());
    if (mkdir(d, 0755))
        lacking(d);
    const char *f = v1 ? "freezer.state" : "cgroup.freeze";
    int fd[2];
    if (pipe(fd))
        die("pipe");
    pid_t c = fork();
    if (!c) {
        char x;
        if (read(fd[0], &x, 1) != 1)
            _exit(1);
        req_begin();
        burn(100);
        req_end();
        zoo_done();
        exit(0);
    }
    snprintf(v, sizeof v, "%d", (int)c);
    put(d, "cgroup.procs", v);
    pid_t k = fork();
    if (!k) {
        name("snapshotd");
        msleep(40);
        put(d, f, v1 ? "FROZEN" : "1");
        msleep(400);
        put(d, f, v1 ? "THAWED" : "0");
        _exit(0);
    }
    truth("\"culprit_pid\":%d", (int)k);
    if (write(fd[1], "x", 1) != 1)
        die("write");
    waitpid(c, 0, 0);
    waitpid(k, 0, 0);
    rmdir(d);
}
