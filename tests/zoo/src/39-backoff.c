// The request fails at first and sleeps 500 ms before it tries again: by its own choice.
#include "zoo.h"
int main(void) {
    zoo_init("39-backoff");
    name("uploader");
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(9)};
    truth("\"sleeper_tid\":%d", (int)tid());
    req_begin();
    int s = socket(AF_INET, SOCK_STREAM, 0);
    connect(s, (void *)&a, sizeof a);
    struct timespec t = {0, 500000000};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &t, 0);
    req_end();
    zoo_done();
}
