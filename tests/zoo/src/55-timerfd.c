// The request waits for its own timer (timerfd), 400 ms.
#include "zoo.h"
#include <sys/timerfd.h>
int main(void) {
    zoo_init("55-timerfd");
    name("ratelimit");
    int t = timerfd_create(CLOCK_MONOTONIC, 0);
    struct itimerspec s = {.it_value = {0, 400000000}};
    uint64_t n;
    truth("\"timer\":\"400 ms\"");
    req_begin();
    timerfd_settime(t, 0, &s, 0);
    if (read(t, &n, 8) != 8)
        die("read");
    req_end();
    zoo_done();
}
