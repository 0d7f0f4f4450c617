// send_signal VICTIM OUT: with CAP_BPF and CAP_PERFMON alone, has the kernel kill the process
// VICTIM at its next system call. What came of it goes into OUT, as name=errno.
#include <errno.h>
#include <linux/bpf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int bpf(int command, union bpf_attr *attr) {
    return (int)syscall(SYS_bpf, command, attr, sizeof *attr);
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    char part[4096];
    snprintf(part, sizeof part, "%s.part", argv[2]);
    FILE *out = fopen(part, "w");
    if (!out) return 2;

    union bpf_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.map_type = BPF_MAP_TYPE_ARRAY;
    attr.key_size = 4;
    attr.value_size = 8;
    attr.max_entries = 1;
    fprintf(out, "map=%d\n", bpf(BPF_MAP_CREATE, &attr) < 0 ? errno : 0);

    struct bpf_insn code[] = {
        {.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_get_current_pid_tgid},
        {.code = BPF_ALU64 | BPF_RSH | BPF_K, .dst_reg = 0, .imm = 32},
        {.code = BPF_JMP | BPF_JNE | BPF_K, .dst_reg = 0, .imm = atoi(argv[1]), .off = 2},
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 1, .imm = 9},
        {.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_send_signal},
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .imm = 0},
        {.code = BPF_JMP | BPF_EXIT},
    };
    memset(&attr, 0, sizeof attr);
    attr.prog_type = BPF_PROG_TYPE_RAW_TRACEPOINT;
    attr.insns = (uintptr_t)code;
    attr.insn_cnt = sizeof code / sizeof *code;
    attr.license = (uintptr_t)"GPL";
    int program = bpf(BPF_PROG_LOAD, &attr);
    fprintf(out, "load=%d\n", program < 0 ? errno : 0);
    if (program >= 0) {
        memset(&attr, 0, sizeof attr);
        attr.raw_tracepoint.name = (uintptr_t)"sys_enter";
        attr.raw_tracepoint.prog_fd = (unsigned)program;
        fprintf(out, "attach=%d\n", bpf(BPF_RAW_TRACEPOINT_OPEN, &attr) < 0 ? errno : 0);
        sleep(1);
    }
    fclose(out);
    return rename(part, argv[2]) ? 2 : 0;
}
