#include "lowering/cuda_to_ptx/sandbox.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iterator>
#include <memory>
#include <thread>
#include <utility>

namespace qgpu {
namespace {

using Clock = std::chrono::steady_clock;

// The program is executed through this descriptor, which is above the descriptor limit, so that the child cannot open
// anything else there: the one exec that seccomp allows is this one.
constexpr int kProgramFd = 200;
constexpr int kMaxOpenFiles = 64;

class Fd {
 public:
  explicit Fd(int fd = -1) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd() { Close(); }
  int get() const { return fd_; }
  void Close() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }

 private:
  int fd_;
};

absl::Status SystemError(const char* what) {
  return absl::UnavailableError(fmt::format("sandbox: {}: {}", what, std::strerror(errno)));
}

// --- Landlock. The rights are written out, so that building on an older kernel's headers gives the same sandbox.

constexpr uint64_t kFsExecute = 1u << 0, kFsWriteFile = 1u << 1, kFsReadFile = 1u << 2, kFsReadDir = 1u << 3;
constexpr uint64_t kFsRemoveFile = 1u << 5, kFsMakeRegular = 1u << 8, kFsTruncate = 1u << 14;

uint64_t HandledFileRights(int abi) {
  if (abi >= 5) return (1u << 16) - 1;  // with ioctl on devices
  if (abi >= 3) return (1u << 15) - 1;  // with truncate
  if (abi == 2) return (1u << 14) - 1;  // with refer
  return (1u << 13) - 1;
}

struct LandlockRuleset {  // struct landlock_ruleset_attr of ABI 6
  uint64_t handled_access_fs, handled_access_net, scoped;
};

bool AllowPath(int ruleset, const std::string& path, uint64_t rights) {
  const Fd fd(open(path.c_str(), O_PATH | O_CLOEXEC));
  struct stat info;
  if (fd.get() < 0 || fstat(fd.get(), &info) != 0) return errno == ENOENT;
  if (!S_ISDIR(info.st_mode)) rights &= kFsExecute | kFsWriteFile | kFsReadFile | kFsTruncate;
  landlock_path_beneath_attr rule = {};
  rule.allowed_access = rights;
  rule.parent_fd = fd.get();
  return syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0;
}

// A ruleset that a child only has to enter, or an empty Fd where `abi` is 0.
absl::StatusOr<Fd> MakeLandlockRuleset(int abi, const SandboxCommand& command) {
  if (abi == 0) return Fd();
  LandlockRuleset attributes = {HandledFileRights(abi), 0, 0};
  size_t size = sizeof(uint64_t);
  if (abi >= 4) {
    attributes.handled_access_net = 3;  // TCP bind and connect
    size = 2 * sizeof(uint64_t);
  }
  if (abi >= 6) {
    attributes.scoped = 3;  // abstract sockets and signals to outside
    size = 3 * sizeof(uint64_t);
  }
  Fd ruleset(static_cast<int>(syscall(SYS_landlock_create_ruleset, &attributes, size, 0)));
  if (ruleset.get() < 0) return SystemError("no Landlock ruleset");
  const uint64_t read = kFsReadFile | kFsReadDir | kFsExecute;
  const uint64_t write = kFsReadFile | kFsReadDir | kFsWriteFile | kFsRemoveFile | kFsMakeRegular | kFsTruncate;
  bool allowed = AllowPath(ruleset.get(), command.program, read) &&
                 AllowPath(ruleset.get(), command.scratch, write & HandledFileRights(abi)) &&
                 AllowPath(ruleset.get(), "/dev/null", kFsReadFile | kFsWriteFile);
  for (const std::string& path : command.readable) allowed = allowed && AllowPath(ruleset.get(), path, read);
  if (!allowed) return SystemError("no Landlock rule");
  return ruleset;
}

// --- seccomp. Everything that is not listed fails with EPERM.

constexpr int kAllowedCalls[] = {
    SCMP_SYS(read),
    SCMP_SYS(readv),
    SCMP_SYS(pread64),
    SCMP_SYS(write),
    SCMP_SYS(writev),
    SCMP_SYS(pwrite64),
    SCMP_SYS(open),
    SCMP_SYS(openat),
    SCMP_SYS(close),
    SCMP_SYS(lseek),
    SCMP_SYS(access),
    SCMP_SYS(faccessat),
    SCMP_SYS(faccessat2),
    SCMP_SYS(stat),
    SCMP_SYS(lstat),
    SCMP_SYS(fstat),
    SCMP_SYS(newfstatat),
    SCMP_SYS(statx),
    SCMP_SYS(statfs),
    SCMP_SYS(fstatfs),
    SCMP_SYS(getdents64),
    SCMP_SYS(readlink),
    SCMP_SYS(readlinkat),
    SCMP_SYS(getcwd),
    SCMP_SYS(unlink),
    SCMP_SYS(unlinkat),
    SCMP_SYS(rename),
    SCMP_SYS(renameat),
    SCMP_SYS(renameat2),
    SCMP_SYS(ftruncate),
    SCMP_SYS(fcntl),
    SCMP_SYS(dup),
    SCMP_SYS(dup2),
    SCMP_SYS(dup3),
    SCMP_SYS(fadvise64),
    SCMP_SYS(mmap),
    SCMP_SYS(mprotect),
    SCMP_SYS(munmap),
    SCMP_SYS(mremap),
    SCMP_SYS(madvise),
    SCMP_SYS(brk),
    SCMP_SYS(rt_sigaction),
    SCMP_SYS(rt_sigprocmask),
    SCMP_SYS(rt_sigreturn),
    SCMP_SYS(sigaltstack),
    SCMP_SYS(tgkill),
    SCMP_SYS(futex),
    SCMP_SYS(set_robust_list),
    SCMP_SYS(set_tid_address),
    SCMP_SYS(rseq),
    SCMP_SYS(arch_prctl),
    SCMP_SYS(getrandom),
    SCMP_SYS(uname),
    SCMP_SYS(sysinfo),
    SCMP_SYS(getpid),
    SCMP_SYS(gettid),
    SCMP_SYS(getuid),
    SCMP_SYS(geteuid),
    SCMP_SYS(getgid),
    SCMP_SYS(getegid),
    SCMP_SYS(getrusage),
    SCMP_SYS(times),
    SCMP_SYS(clock_gettime),
    SCMP_SYS(clock_getres),
    SCMP_SYS(gettimeofday),
    SCMP_SYS(time),
    SCMP_SYS(nanosleep),
    SCMP_SYS(clock_nanosleep),
    SCMP_SYS(sched_yield),
    SCMP_SYS(sched_getaffinity),
    SCMP_SYS(restart_syscall),
    SCMP_SYS(exit),
    SCMP_SYS(exit_group),
};

// The BPF program, made before the fork: after it only async-signal-safe calls are allowed, which libseccomp's are not.
absl::StatusOr<std::vector<sock_filter>> MakeSeccompFilter() {
  const std::unique_ptr<void, void (*)(scmp_filter_ctx)> filter(seccomp_init(SCMP_ACT_ERRNO(EPERM)), seccomp_release);
  if (filter == nullptr) return absl::UnavailableError("sandbox: no seccomp filter");
  int error = 0;
  const auto add = [&](uint32_t action, int call, std::vector<scmp_arg_cmp> conditions) {
    const int result =
        seccomp_rule_add_array(filter.get(), action, call, static_cast<unsigned>(conditions.size()), conditions.data());
    // EDOM, EFAULT: this architecture has no such call.
    if (result != 0 && result != -EDOM && result != -EFAULT) error = result;
  };
  for (const int call : kAllowedCalls) add(SCMP_ACT_ALLOW, call, {});
  add(SCMP_ACT_ALLOW, SCMP_SYS(execveat), {SCMP_A0(SCMP_CMP_EQ, kProgramFd), SCMP_A4(SCMP_CMP_EQ, AT_EMPTY_PATH)});
  // Threads but no processes. clone3's flags lie in memory, so glibc is sent back to clone.
  add(SCMP_ACT_ALLOW, SCMP_SYS(clone), {SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD)});
  add(SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), {});
  add(SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), {SCMP_A2(SCMP_CMP_EQ, 0)});
  add(SCMP_ACT_ALLOW, SCMP_SYS(prctl), {SCMP_A0(SCMP_CMP_EQ, PR_SET_NAME)});
  add(SCMP_ACT_ALLOW, SCMP_SYS(ioctl), {SCMP_A1(SCMP_CMP_EQ, TCGETS)});
  const Fd file(memfd_create("qgpu-seccomp", MFD_CLOEXEC));
  if (file.get() < 0) return SystemError("no memory file");
  if (error != 0 || seccomp_export_bpf(filter.get(), file.get()) != 0) {
    return absl::UnavailableError("sandbox: no seccomp filter");
  }
  const off_t size = lseek(file.get(), 0, SEEK_END);
  std::vector<sock_filter> program(static_cast<size_t>(size) / sizeof(sock_filter));
  if (pread(file.get(), program.data(), static_cast<size_t>(size), 0) != size) return SystemError("no seccomp filter");
  return program;
}

// --- The child, between fork and exec: system calls only.

struct ChildPlan {
  const SandboxCommand* command;
  std::vector<char*> argv, envp;
  std::vector<sock_filter> filter;  // empty: no seccomp
  int program_fd, ruleset_fd, null_fd, output_fd, failure_fd;
};

enum class Step : int { kDescriptors, kFolder, kLimits, kPrivileges, kLandlock, kSeccomp, kExec };
constexpr const char* kStepNames[] = {"descriptors", "scratch folder", "resource limits", "no_new_privs", "Landlock",
                                      "seccomp",     "start"};

[[noreturn]] void FailChild(const ChildPlan& plan, Step step) {
  const int report[2] = {static_cast<int>(step), errno};
  (void)!write(plan.failure_fd, report, sizeof(report));
  _exit(127);
}

// Never above what this process itself may use.
bool Limit(int resource, uint64_t soft, uint64_t hard) {
  rlimit limit;
  if (getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0) return false;
  limit.rlim_max = std::min(limit.rlim_max, static_cast<rlim_t>(hard));
  limit.rlim_cur = std::min(limit.rlim_max, static_cast<rlim_t>(soft));
  return setrlimit(static_cast<__rlimit_resource_t>(resource), &limit) == 0;
}

bool SetLimits(const SandboxCommand& command) {
  const uint64_t cpu = static_cast<uint64_t>(command.cpu_seconds);
  return Limit(RLIMIT_CPU, cpu, cpu + 1) && Limit(RLIMIT_FSIZE, command.file_bytes, command.file_bytes) &&
         Limit(RLIMIT_AS, command.address_space_bytes, command.address_space_bytes) && Limit(RLIMIT_CORE, 0, 0) &&
         Limit(RLIMIT_STACK, 8 << 20, 8 << 20) && Limit(RLIMIT_NOFILE, kMaxOpenFiles, kMaxOpenFiles);
}

// Forbids signals to anybody but the process itself: tgkill (which abort needs) with another process number.
bool ForbidForeignSignals() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_tgkill, 0, 2),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(getpid()), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
  };
  const sock_fprog filter = {static_cast<unsigned short>(std::size(program)), program};
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// Marks every inherited descriptor but 0 to 2 to be closed by exec.
void CloseOthersOnExec() {
#ifdef SYS_close_range
  constexpr unsigned kCloseOnExec = 1u << 2;
  if (syscall(SYS_close_range, 3u, ~0u, kCloseOnExec) == 0) return;
#endif
  for (int fd = 3; fd < 65536; ++fd) fcntl(fd, F_SETFD, FD_CLOEXEC);
}

// Moves the plan's descriptors out of the way of 0 to 2 and of kProgramFd.
bool MoveDescriptors(ChildPlan& plan) {
  for (int* fd : {&plan.failure_fd, &plan.program_fd, &plan.ruleset_fd, &plan.null_fd, &plan.output_fd}) {
    if (*fd >= 0 && (*fd = fcntl(*fd, F_DUPFD_CLOEXEC, kProgramFd + 1)) < 0) return false;
  }
  return true;
}

[[noreturn]] void RunChild(ChildPlan& plan) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int signal_number = 1; signal_number < 32; ++signal_number) signal(signal_number, SIG_DFL);
  if (!MoveDescriptors(plan) || dup2(plan.null_fd, 0) < 0 || dup2(plan.output_fd, 1) < 0 ||
      dup2(plan.output_fd, 2) < 0 || dup3(plan.program_fd, kProgramFd, O_CLOEXEC) < 0) {
    FailChild(plan, Step::kDescriptors);
  }
  CloseOthersOnExec();
  if (chdir(plan.command->scratch.c_str()) != 0) FailChild(plan, Step::kFolder);
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) FailChild(plan, Step::kPrivileges);
  if (plan.ruleset_fd >= 0 && syscall(SYS_landlock_restrict_self, plan.ruleset_fd, 0) != 0) {
    FailChild(plan, Step::kLandlock);
  }
  if (!SetLimits(*plan.command)) FailChild(plan, Step::kLimits);
  if (!plan.filter.empty()) {
    const sock_fprog filter = {static_cast<unsigned short>(plan.filter.size()),
                               const_cast<sock_filter*>(plan.filter.data())};
    if (!ForbidForeignSignals() || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
      FailChild(plan, Step::kSeccomp);
    }
  }
  syscall(SYS_execveat, kProgramFd, "", plan.argv.data(), plan.envp.data(), AT_EMPTY_PATH);
  FailChild(plan, Step::kExec);
}

// --- The parent.

// Collects output until the child ends or the clock runs out (then the child is killed).
SandboxOutcome Supervise(pid_t child, Fd output, const SandboxCommand& command) {
  SandboxOutcome outcome;
  const auto deadline = Clock::now() + std::chrono::milliseconds(command.wall_ms);
  bool open = true, killed = false;
  int status = 0;
  rusage usage = {};
  while (true) {
    char buffer[4096];
    pollfd poll_fd = {output.get(), POLLIN, 0};
    if (open && poll(&poll_fd, 1, 10) > 0) {
      const ssize_t count = read(output.get(), buffer, sizeof(buffer));
      if (count <= 0) open = false;
      const size_t room = command.message_bytes - outcome.messages.size();
      if (count > 0) outcome.messages.append(buffer, std::min(static_cast<size_t>(count), room));
    } else if (!open) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    // While output is open the child has not ended, except for the moment between its end and the pipe's.
    if (!open || killed) {
      const pid_t waited = wait4(child, &status, killed ? 0 : WNOHANG, &usage);
      if (waited == child || (waited < 0 && errno != EINTR)) break;
    }
    if (!killed && Clock::now() > deadline) {
      kill(-child, SIGKILL);
      kill(child, SIGKILL);
      killed = true;
    }
  }
  if (killed) {
    outcome.end = SandboxOutcome::End::kWallTime;
  } else if (WIFSIGNALED(status)) {
    outcome.code = WTERMSIG(status);
    // A program that survives SIGXCPU is killed a second later.
    if (outcome.code == SIGKILL && usage.ru_utime.tv_sec + usage.ru_stime.tv_sec >= command.cpu_seconds) {
      outcome.code = SIGXCPU;
    }
    outcome.end = outcome.code == SIGXCPU   ? SandboxOutcome::End::kCpuTime
                  : outcome.code == SIGXFSZ ? SandboxOutcome::End::kFileSize
                                            : SandboxOutcome::End::kSignal;
  } else {
    outcome.code = WEXITSTATUS(status);
  }
  return outcome;
}

absl::StatusOr<std::pair<Fd, Fd>> MakePipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return SystemError("no pipe");
  return std::pair<Fd, Fd>(Fd(ends[0]), Fd(ends[1]));
}

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const std::string& string : strings) pointers.push_back(const_cast<char*>(string.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

absl::StatusOr<SandboxOutcome> RunSandboxedWith(const SandboxLayers& layers, const SandboxCommand& command) {
  std::vector<std::string> argv = {command.program};
  argv.insert(argv.end(), command.arguments.begin(), command.arguments.end());
  // Nothing is inherited: times and places of this machine must not reach the output.
  const std::vector<std::string> environment = {"LC_ALL=C", "SOURCE_DATE_EPOCH=0", "LLVM_DISABLE_SYMBOLIZATION=1",
                                                "TMPDIR=" + command.scratch};
  ChildPlan plan;
  plan.command = &command;
  plan.argv = Pointers(argv);
  plan.envp = Pointers(environment);
  QGPU_ASSIGN_OR_RETURN(const Fd ruleset, MakeLandlockRuleset(layers.landlock_abi, command));
  if (layers.seccomp) {
    QGPU_ASSIGN_OR_RETURN(plan.filter, MakeSeccompFilter());
  }
  const Fd program(open(command.program.c_str(), O_RDONLY | O_CLOEXEC));
  if (program.get() < 0) return SystemError(command.program.c_str());
  const Fd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (null.get() < 0) return SystemError("/dev/null");
  QGPU_ASSIGN_OR_RETURN(auto output, MakePipe());
  QGPU_ASSIGN_OR_RETURN(auto failure, MakePipe());
  plan.program_fd = program.get();
  plan.ruleset_fd = ruleset.get();
  plan.null_fd = null.get();
  plan.output_fd = output.second.get();
  plan.failure_fd = failure.second.get();

  const pid_t child = fork();
  if (child < 0) return SystemError("no process");
  if (child == 0) RunChild(plan);
  output.second.Close();
  failure.second.Close();
  SandboxOutcome outcome = Supervise(child, std::move(output.first), command);
  int report[2];
  if (read(failure.first.get(), report, sizeof(report)) == sizeof(report)) {
    errno = report[1];
    return SystemError(fmt::format("{}: {}", command.program, kStepNames[report[0]]).c_str());
  }
  return outcome;
}

absl::StatusOr<SandboxOutcome> RunSandboxed(const SandboxCommand& command) {
  return RunSandboxedWith(ProbeSandbox(), command);
}

SandboxLayers ProbeSandbox() {
  SandboxLayers layers;
  const long abi = syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  layers.landlock_abi = abi > 0 ? static_cast<int>(abi) : 0;
  uint32_t action = SECCOMP_RET_ERRNO;
  layers.seccomp = syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
  return layers;
}

std::string SandboxLayers::Describe() const {
  std::string text = landlock_abi > 0 ? fmt::format("Landlock (ABI {})", landlock_abi)
                                      : "no Landlock (files are kept away by the compiler's own file table only)";
  text += seccomp ? ", seccomp" : ", no seccomp (system calls are not filtered)";
  return text + ", resource limits";
}

}  // namespace qgpu
