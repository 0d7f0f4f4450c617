// The request asks a server over a Unix socket, "tax", whose control group may run 10 ms each 100
// ms.
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
    zoo_init("53-server-quota");
    name("cashier");
    char d[256], v[32], b[64];
    int s[2], v1 = !access("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", F_OK);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, s))
        die("socketpair");
    snprintf(d, sizeof d, "%s/zoo-tax-%d", v1 ? "/sys/fs/cgroup/cpu" : "/sys/fs/cgroup",
             (int)getpid());
    if (mkdir(d, 0755))
        lacking(d);
    // Before all other groups, so that it waits for nothing else.
    if (v1) {
        put(d, "cpu.shares", "262144");
        put(d, "cpu.cfs_period_us", "100000");
        put(d, "cpu.cfs_quota_us", "10000");
    } else {
        put(d, "cpu.weight", "10000");
        put(d, "cpu.max", "10000 100000");
    }
    pid_t k = fork();
    if (!k) {
        name("tax");
        close(s[0]);
        while (read(s[1], b, 64) > 0) {
            burn(40);
            if (write(s[1], "r", 1) != 1)
                break;
        }
        _exit(0);
    }
    close(s[1]);
    snprintf(v, sizeof v, "%d", (int)k);
    put(d, "cgroup.procs", v);
    truth("\"culprit_pid\":%d", (int)k);
    msleep(20);
    req_begin();
    if (write(s[0], "q", 1) != 1 || read(s[0], b, 64) != 1)
        die("rpc");
    req_end();
    close(s[0]);
    waitpid(k, 0, 0);
    rmdir(d);
    zoo_done();
}
