// The request writes to a full pipe. The reader, "shipper", is runnable all the time, but "encode",
// nice -20, has its CPU.
#include "zoo.h"
int main(void) {
    zoo_init("16-starved-reader");
    name("collector");
    int d[2];
    char b[4096] = "x";
    if (pipe(d))
        die("pipe");
    fcntl(d[1], F_SETPIPE_SZ, 4096);
    pid_t h[4], k = fork();
    if (!k) {
        name("shipper");
        pin(lastcpu());
        setpriority(PRIO_PROCESS, 0, 19);
        close(d[1]);
        while (read(d[0], b, sizeof b) > 0)
            burn(4);
        _exit(0);
    }
    close(d[0]);
    for (int i = 0; i < 4; i++)
        if (!(h[i] = fork())) {
            close(d[1]);
            name("encode");
            pin(lastcpu());
            setpriority(PRIO_PROCESS, 0, -20);
            spin(700);
            _exit(0);
        }
    truth("\"reader_pid\":%d,\"hog_pid\":%d", (int)k, (int)h[0]);
    msleep(40);
    req_begin();
    for (int i = 0; i < 6; i++)
        if (write(d[1], b, sizeof b) < 0)
            die("write");
    req_end();
    close(d[1]);
    for (int i = 0; i < 4; i++)
        waitpid(h[i], 0, 0);
    waitpid(k, 0, 0);
    zoo_done();
}
