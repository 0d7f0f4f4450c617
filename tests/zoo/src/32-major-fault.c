// The request reads a mapped file whose pages are not in memory, from a slow disk: page faults.
#include "zoo.h"
int main(void) {
    zoo_init("32-major-fault");
    name("geoip");
    char p[512];
    snprintf(p, sizeof p, "%s/catalog.bin", env("ZOO_SLOW", "slow"));
    int fd = open(p, O_RDONLY);
    if (fd < 0)
        die(p);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    volatile char *m = mmap(0, 16 << 20, PROT_READ, MAP_SHARED, fd, 0);
    madvise((void *)m, 16 << 20, MADV_RANDOM);
    truth("\"file\":\"catalog.bin\"");
    unsigned s = 0;
    req_begin();
    for (int i = 0; i < 10; i++)
        s += m[i * 1048576 + 500000];
    req_end();
    zoo_done();
    return s == 1;
}
