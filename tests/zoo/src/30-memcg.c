// The request touches 48 MiB in a control group that may have 24 MiB: each page has to be taken
// from others, and dirty file pages have to be written to the slow disk first.
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
    zoo_init("30-memcg");
    name("reports");
    char d[256], v[32], q[512];
    int v1 = !access("/sys/fs/cgroup/memory/memory.limit_in_bytes", F_OK);
    snprintf(d, sizeof d, "%s/zoo-reports-%d", v1 ? "/sys/fs/cgroup/memory" : "/sys/fs/cgroup",
             (int)getpid());
    if (mkdir(d, 0755))
        lacking(d);
    put(d, v1 ? "memory.limit_in_bytes" : "memory.max", "25165824");
    truth("\"cgroup\":\"%s\"", d);
    snprintf(q, sizeof q, "%s/big.dat", env("ZOO_OUT", "."));
    int f = open(q, O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (f < 0 || ftruncate(f, 192 << 20))
        die(q);
    int fd[2];
    if (pipe(fd))
        die("pipe");
    pid_t c = fork();
    if (!c) {
        char x;
        if (read(fd[0], &x, 1) != 1)
            _exit(1);
        volatile char *m = mmap(0, 192 << 20, PROT_READ, MAP_SHARED, f, 0);
        unsigned s = 0;
        req_begin();
        for (int r = 0; r < 2; r++)
            for (long i = 0; i < 192 << 20; i += 4096)
                s += m[i];
        req_end();
        zoo_done();
        exit(0);
    }
    snprintf(v, sizeof v, "%d", (int)c);
    put(d, "cgroup.procs", v);
    if (write(fd[1], "x", 1) != 1)
        die("write");
    waitpid(c, 0, 0);
    unlink(q);
    rmdir(d);
}
