// The request is put into the queue of a pool of two threads, "dbpool", which are both asleep in
// what came before.
#include "zoo.h"
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER, d = PTHREAD_COND_INITIALIZER;
static int queued, done, want;
static void *worker(void *a) {
    name("dbpool");
    for (;;) {
        pthread_mutex_lock(&m);
        while (!queued)
            pthread_cond_wait(&c, &m);
        int job = queued--;
        pthread_mutex_unlock(&m);
        if (want == 0 || job > 1 || done < 2)
            msleep(400);
        else
            burn(1);
        pthread_mutex_lock(&m);
        done++;
        pthread_cond_broadcast(&d);
        pthread_mutex_unlock(&m);
    }
    return 0;
}
int main(void) {
    zoo_init("60-pool");
    name("webapp");
    pthread_t t[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&t[i], 0, worker, 0);
    msleep(20);
    pthread_mutex_lock(&m);
    queued = 2;
    pthread_cond_broadcast(&c);
    pthread_mutex_unlock(&m);
    msleep(30);
    truth("\"culprit\":\"dbpool\"");
    req_begin();
    pthread_mutex_lock(&m);
    want = 1;
    queued++;
    pthread_cond_signal(&c);
    while (done < 3)
        pthread_cond_wait(&d, &m);
    pthread_mutex_unlock(&m);
    req_end();
    zoo_done();
    _exit(0);
}
