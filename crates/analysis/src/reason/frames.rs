//! The reason for a wait, by the functions of the kernel in which the thread slept. Names are of
//! Linux 6.1 to 6.18.

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

use super::calls::{file, protocol};
use super::{Reason, ReasonKind, Wait, of};
use crate::syscalls::reads_first;

/// What a function says of the wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Says {
    /// It is this kind.
    Kind(ReasonKind),
    /// It is a lock of the kernel; who takes it is farther out.
    Lock,
    /// It waits for something else that goes on in the kernel; farther out is what.
    Weak(ReasonKind),
    /// A file system that somebody else serves, of this kind.
    Server(&'static str),
    /// It is part of sleeping, or of the way into the kernel.
    Nothing,
    /// It is not known.
    Unknown,
}

/// `None`: there is no stack, or it says nothing.
pub(super) fn reason(wait: &Wait<'_>) -> Option<Reason> {
    let mut weak = None;
    let mut frames = wait.frames.iter().map(|name| bare(name)).peekable();
    while let Some(frame) = frames.next() {
        match says(frame) {
            Says::Kind(kind) => return Some(told(kind, wait)),
            Says::Server(kind) => return Some(ReasonKind::FileServer.about(kind.as_bytes())),
            Says::Lock if wait.frames.iter().any(|name| is_address_space(bare(name))) => {
                return Some(ReasonKind::AddressSpace.alone());
            }
            Says::Lock => {
                let taker = frames.find(|frame| !matches!(says(frame), Says::Lock | Says::Nothing));
                return Some(ReasonKind::KernelLock.maybe(taker.map(str::as_bytes)));
            }
            Says::Weak(kind) => {
                let who = frames.peek().copied();
                weak = weak.or(Some((kind, who)));
            }
            Says::Nothing | Says::Unknown => {}
        }
    }
    let (kind, who) = weak?;
    Some(match kind {
        ReasonKind::Disk => told(kind, wait),
        _ => kind.maybe(who.map(str::as_bytes)),
    })
}

/// The innermost function that is more than the act of sleeping.
pub(super) fn innermost<'a>(frames: &[&'a str]) -> Option<&'a str> {
    frames.iter().map(|name| bare(name)).find(|name| says(name) != Says::Nothing)
}

/// A name without what the compiler added: `.isra.0`, `.constprop.0`, `.part.0`, `.cold`.
pub(super) fn bare(name: &str) -> &str {
    name.split_once('.').map_or(name, |(name, _)| name)
}

/// A kind, with what it is about as the call tells.
fn told(kind: ReasonKind, wait: &Wait<'_>) -> Reason {
    use ReasonKind as Kind;
    match kind {
        Kind::Flock | Kind::RecordLock => {
            let kind = match wait.call {
                Some("flock") => Kind::Flock,
                Some("fcntl" | "fcntl64") => Kind::RecordLock,
                _ => kind,
            };
            kind.maybe(file(wait))
        }
        Kind::SocketRead if matches!(wait.call, Some("accept" | "accept4")) => {
            Kind::Accept.maybe(protocol(wait))
        }
        // A send may wait for what a receive waits for: the functions are the same.
        Kind::SocketRead if wait.call.and_then(reads_first) == Some(false) => {
            Kind::SocketWrite.maybe(protocol(wait))
        }
        Kind::SocketRead | Kind::SocketWrite | Kind::Accept | Kind::Connect => {
            kind.maybe(protocol(wait))
        }
        Kind::Events => kind.maybe(wait.call.map(str::as_bytes)),
        Kind::Disk => {
            let server = wait.frames.iter().find_map(|name| server(bare(name)));
            match (server, wait.call) {
                (Some(server), _) => Kind::FileServer.about(server.as_bytes()),
                (None, Some(call)) => kind.about(&of(call, file(wait))),
                (None, None) if wait.frames.iter().any(|name| is_fault(bare(name))) => {
                    kind.about(b"page fault")
                }
                (None, None) => kind.alone(),
            }
        }
        Kind::FifoOpen | Kind::Lease | Kind::Terminal | Kind::Journal => kind.maybe(file(wait)),
        _ => kind.alone(),
    }
}

/// Whether a function is part of handling a page fault.
pub(super) fn is_fault(name: &str) -> bool {
    matches!(
        name,
        "exc_page_fault"
            | "asm_exc_page_fault"
            | "do_user_addr_fault"
            | "handle_mm_fault"
            | "filemap_fault"
            | "do_page_fault"
            | "do_mem_abort"
    )
}

/// Functions in which no other lock is waited for than that of an address space, by the beginnings
/// of their names.
fn is_address_space(name: &str) -> bool {
    let begins = [
        "do_mprotect",
        "vm_mmap_pgoff",
        "__vm_munmap",
        "vm_munmap",
        "vm_brk",
        "__do_sys_brk",
        "do_madvise",
        "madvise_",
        "do_mlock",
        "lock_mm_and_find_vma",
        "do_user_addr_fault",
        "__x64_sys_mremap",
        "__do_sys_mremap",
        "__access_remote_vm",
        "dup_mm",
        "exit_mmap",
        "mmap_read_lock",
        "mmap_write_lock",
    ];
    begins.iter().any(|begin| name.starts_with(begin))
}

/// What the beginning of a function's name says where the name is none that is known: functions of
/// one part of the kernel that differ between releases.
fn family(name: &str) -> Says {
    use ReasonKind as Kind;
    let families = [
        ("rwsem_", Says::Lock),
        ("down_", Says::Lock),
        ("__down_", Says::Lock),
        ("__mutex_lock", Says::Lock),
        ("mutex_lock", Says::Lock),
        ("jbd2_", Says::Kind(Kind::Journal)),
        ("xlog_", Says::Kind(Kind::Journal)),
        ("nfs_", Says::Server("NFS")),
        ("folio_wait", Says::Kind(Kind::Disk)),
        ("wait_on_page_", Says::Kind(Kind::Disk)),
        ("blkdev_", Says::Kind(Kind::Disk)),
        ("shrink_", Says::Kind(Kind::Reclaim)),
        ("synchronize_", Says::Kind(Kind::Rcu)),
        ("wait_rcu", Says::Kind(Kind::Rcu)),
    ];
    let known = families.into_iter().find(|(begin, _)| name.starts_with(begin));
    known.map_or(Says::Unknown, |(_, says)| says)
}

/// The kind of a file system that a program or another machine serves, by a function of it.
fn server(name: &str) -> Option<&'static str> {
    let servers =
        [("fuse_", "FUSE"), ("nfs", "NFS"), ("cifs_", "SMB"), ("ceph_", "Ceph"), ("v9fs_", "9P")];
    servers.iter().find(|(prefix, _)| name.starts_with(prefix)).map(|(_, kind)| *kind)
}

/// Functions, by what they say, with blanks between them.
const FUNCTIONS: &[(Says, &str)] = {
    use ReasonKind as Kind;
    use Says::{Kind as Is, Lock, Nothing, Server, Weak};
    &[
        (
            Nothing,
            "__schedule schedule schedule_timeout schedule_hrtimeout_range \
             schedule_hrtimeout_range_clock schedule_hrtimeout schedule_preempt_disabled \
             schedule_idle preempt_schedule_common __cond_resched wait_woken \
             prepare_to_wait_event __wait_on_bit __wait_on_bit_lock out_of_line_wait_on_bit \
             out_of_line_wait_on_bit_lock bit_wait do_wait_intr do_wait_intr_irq do_syscall_64 \
             x64_sys_call entry_SYSCALL_64_after_hwframe do_syscall_32_irqs_on \
             __do_fast_syscall_32 do_fast_syscall_32 entry_SYSCALL_compat_after_hwframe \
             ret_from_fork ret_from_fork_asm kthread el0t_64_sync el0t_64_sync_handler el0_svc \
             do_el0_svc invoke_syscall",
        ),
        (
            Lock,
            "__mutex_lock __mutex_lock_slowpath __mutex_lock_interruptible_slowpath \
             __mutex_lock_killable_slowpath mutex_lock mutex_lock_interruptible \
             mutex_lock_killable mutex_lock_io __ww_mutex_lock ww_mutex_lock \
             rwsem_down_read_slowpath rwsem_down_write_slowpath down_read down_write \
             down_read_killable down_write_killable down_read_interruptible percpu_rwsem_wait \
             __percpu_down_read percpu_down_write __down __down_common __down_killable \
             __down_interruptible __down_timeout down down_interruptible down_killable \
             rt_mutex_slowlock rt_mutex_lock __rt_mutex_slowlock rtlock_slowlock rt_spin_lock \
             rwbase_write_lock __rwbase_read_lock rt_read_lock rt_write_lock \
             lock_mm_and_find_vma mmap_read_lock mmap_write_lock lock_two_nondirectories",
        ),
        (
            Is(Kind::Futex),
            "futex_do_wait futex_wait_queue futex_wait_queue_me futex_wait __futex_wait \
             futex_wait_multiple futex_lock_pi futex_wait_requeue_pi do_futex \
             rt_mutex_wait_proxy_lock futex_lock_pi_atomic",
        ),
        (
            Is(Kind::Timer),
            "do_nanosleep hrtimer_nanosleep common_nsleep alarm_timer_nsleep timerfd_read \
             timerfd_read_iter",
        ),
        (
            Is(Kind::Events),
            "ep_poll do_epoll_wait do_epoll_pwait poll_schedule_timeout do_poll do_sys_poll \
             do_select core_sys_select",
        ),
        (Is(Kind::Child), "do_wait __do_wait kernel_wait4 kernel_waitid"),
        (Is(Kind::Vfork), "wait_for_vfork_done"),
        (
            Is(Kind::Signal),
            "sigsuspend do_sigtimedwait __x64_sys_pause __do_sys_pause ksys_pause signalfd_read \
             signalfd_read_iter signalfd_dequeue",
        ),
        (
            Is(Kind::Flock),
            "flock_lock_inode_wait locks_lock_inode_wait __do_sys_flock __x64_sys_flock",
        ),
        (Is(Kind::RecordLock), "posix_lock_inode_wait fcntl_setlk fcntl_setlk64 do_lock_file_wait"),
        (Is(Kind::Lease), "__break_lease"),
        (
            Is(Kind::PipeRead),
            "anon_pipe_read pipe_read pipe_wait_readable fifo_pipe_read splice_from_pipe_next \
             ipipe_prep",
        ),
        (
            Is(Kind::PipeWrite),
            "anon_pipe_write pipe_write fifo_pipe_write pipe_wait_writable wait_for_space \
             opipe_prep",
        ),
        (Is(Kind::FifoOpen), "wait_for_partner fifo_open"),
        (
            Is(Kind::SocketRead),
            "sk_wait_data unix_stream_data_wait unix_stream_read_generic \
             __skb_wait_for_more_packets __skb_recv_datagram __unix_dgram_recvmsg \
             netlink_recvmsg tcp_recvmsg tcp_recvmsg_locked packet_recvmsg \
             vsock_connectible_wait_data bt_sock_wait_ready",
        ),
        (
            Is(Kind::SocketWrite),
            "sk_stream_wait_memory sock_alloc_send_pskb sock_wait_for_wmem unix_wait_for_peer \
             sk_stream_wait_close tcp_sendmsg_locked",
        ),
        (Is(Kind::Accept), "inet_csk_accept inet_csk_wait_for_connect vsock_accept"),
        (
            Is(Kind::Connect),
            "inet_wait_for_connect __inet_stream_connect sk_stream_wait_connect \
             unix_stream_connect vsock_connect",
        ),
        (Is(Kind::Terminal), "n_tty_read n_tty_write tty_wait_until_sent tty_ldisc_ref_wait"),
        (Is(Kind::Eventfd), "eventfd_read eventfd_write"),
        (Is(Kind::Watch), "inotify_read fanotify_read fanotify_get_response"),
        (
            Is(Kind::IoUring),
            "io_cqring_wait __io_cqring_wait_schedule io_cqring_wait_schedule \
             io_run_task_work_sig",
        ),
        (Is(Kind::Aio), "read_events do_io_getevents"),
        (
            Is(Kind::Disk),
            "folio_wait_bit_common folio_wait_bit __folio_lock __folio_lock_killable \
             __folio_lock_or_retry folio_wait_writeback folio_wait_bit_killable \
             __filemap_fdatawait_range filemap_get_pages wait_on_page_bit_common \
             wait_on_page_bit __lock_page __wait_on_buffer bit_wait_io submit_bio_wait \
             blkdev_issue_flush blkdev_issue_discard blk_execute_rq dio_await_one __iomap_dio_rw \
             iomap_dio_rw __blkdev_direct_IO blkdev_direct_IO __blkdev_direct_IO_simple \
             bio_await_chain xfs_buf_iowait wb_wait_for_completion sync_inodes_sb wait_sb_inodes \
             inode_wait_for_writeback __writeback_single_inode do_read_cache_folio \
             nvme_submit_user_cmd sync_bdevs",
        ),
        (Weak(Kind::Disk), "io_schedule io_schedule_timeout"),
        (
            Is(Kind::DiskQueue),
            "rq_qos_wait wbt_wait blk_mq_get_tag blk_queue_enter __bio_queue_enter \
             blk_mq_freeze_queue_wait bt_get sbitmap_finish_wait",
        ),
        (
            Is(Kind::Journal),
            "jbd2_log_wait_commit jbd2_complete_transaction wait_transaction_locked \
             wait_transaction_switching add_transaction_credits start_this_handle \
             jbd2_journal_commit_transaction __jbd2_log_wait_for_space xlog_wait_on_iclog \
             xlog_grant_head_wait xfs_log_force xfs_log_force_seq __xfs_log_force_lsn \
             btrfs_commit_transaction btrfs_wait_for_commit wait_log_commit wait_current_trans \
             f2fs_issue_checkpoint",
        ),
        (
            Is(Kind::DirtyLimit),
            "balance_dirty_pages balance_dirty_pages_ratelimited_flags io_throttle",
        ),
        (
            Is(Kind::Reclaim),
            "try_to_free_pages shrink_node shrink_lruvec shrink_folio_list shrink_inactive_list \
             reclaim_throttle throttle_direct_reclaim allow_direct_reclaim \
             mem_cgroup_handle_over_high __mem_cgroup_handle_over_high \
             try_to_free_mem_cgroup_pages mem_cgroup_oom_synchronize compact_zone \
             try_to_compact_pages __alloc_pages_slowpath too_many_isolated",
        ),
        (Is(Kind::Swap), "do_swap_page swap_readpage swap_read_folio swap_cluster_readahead"),
        (Is(Kind::Userfault), "handle_userfault"),
        (
            Server("FUSE"),
            "request_wait_answer __fuse_simple_request fuse_simple_request __fuse_request_send",
        ),
        (
            Server("NFS"),
            "rpc_wait_bit_killable __rpc_execute rpc_run_task nfs_wait_bit_killable \
             nfs4_wait_clnt_recover",
        ),
        (Server("SMB"), "wait_for_response cifs_send_recv"),
        (
            Is(Kind::Rcu),
            "synchronize_rcu synchronize_rcu_expedited __wait_rcu_gp wait_rcu_exp_gp \
             __synchronize_srcu synchronize_srcu exp_funnel_lock rcu_barrier \
             synchronize_rcu_normal cond_synchronize_rcu synchronize_net",
        ),
        (
            Weak(Kind::KernelWork),
            "__flush_work flush_work __flush_workqueue flush_workqueue drain_workqueue \
             kthread_stop kthread_flush_work __kthread_create_on_node call_usermodehelper_exec \
             wait_for_completion wait_for_completion_state wait_for_completion_killable \
             wait_for_completion_interruptible wait_for_completion_timeout \
             wait_for_completion_io wait_for_completion_io_timeout __wait_for_common \
             wait_for_common wait_for_common_io",
        ),
        (Is(Kind::MessageQueue), "do_msgrcv do_msgsnd wq_sleep do_mq_timedreceive do_mq_timedsend"),
        (Is(Kind::Semaphore), "__do_semtimedop do_semtimedop"),
        (Is(Kind::Guest), "kvm_vcpu_block kvm_vcpu_halt"),
        (
            Is(Kind::Exit),
            "coredump_wait do_coredump coredump_task_exit zap_pid_ns_processes exit_mm \
             begin_new_exec de_thread",
        ),
        (Is(Kind::Stopped), "do_signal_stop do_jobctl_trap"),
        (Is(Kind::Traced), "ptrace_stop ptrace_do_notify ptrace_notify"),
        (Is(Kind::Frozen), "__refrigerator do_freezer_trap"),
        (
            Is(Kind::Work),
            "worker_thread rescuer_thread kthreadd kthread_worker_fn rcu_gp_kthread \
             rcu_tasks_kthread smpboot_thread_fn kswapd kswapd_try_to_sleep kcompactd kdamond_fn \
             kauditd_thread oom_reaper kjournald2 io_wq_worker io_sq_thread irq_thread \
             khugepaged ksm_scan_thread devtmpfsd devtmpfs_work_loop xfsaild nfsd svc_recv \
             vhost_task_fn loop_thread kvm_nx_huge_page_recovery_worker cpuhp_thread_fun \
             hub_event rcu_gp_fqs_loop rcu_nocb_gp_kthread rcu_nocb_cb_kthread psi_rtpoll_worker \
             watchdogd",
        ),
    ]
};

fn says(name: &str) -> Says {
    static BY_NAME: LazyLock<FxHashMap<&str, Says>> = LazyLock::new(|| {
        let of = |(says, names): &(Says, &'static str)| {
            let says = *says;
            names.split_whitespace().map(move |name| (name, says))
        };
        FUNCTIONS.iter().flat_map(of).collect()
    });
    BY_NAME.get(name).copied().unwrap_or_else(|| family(name))
}
