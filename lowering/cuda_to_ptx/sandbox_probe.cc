// What sandbox_test runs inside the sandbox: tries the one thing it is told and prints "did" or the error's name.
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

int Say(bool did) {
  std::printf("%s\n", did ? "did" : strerrorname_np(errno));
  return 0;
}

int Fork() {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  return Say(child > 0);
}

int Thread() {
  pthread_t thread;
  const auto body = [](void* done) -> void* {
    *static_cast<bool*>(done) = true;
    return nullptr;
  };
  bool done = false;
  errno = pthread_create(&thread, nullptr, body, &done);
  if (errno == 0) pthread_join(thread, nullptr);
  return Say(done);
}

int Execute(const char* program) {
  char* const argv[] = {const_cast<char*>(program), nullptr};
  execv(program, argv);
  return Say(false);
}

// Through a descriptor, as the sandbox itself starts a program.
int ExecuteDescriptor(const char* program, int number) {
  const int opened = open(program, O_RDONLY);
  const int fd = number == 0 ? opened : dup2(opened, number);
  if (fd < 0) return Say(false);
  char* const argv[] = {const_cast<char*>(program), nullptr};
  syscall(SYS_execveat, fd, "", argv, nullptr, AT_EMPTY_PATH);
  return Say(false);
}

int Read(const char* path) {
  const int fd = open(path, O_RDONLY);
  char byte;
  return Say(fd >= 0 && read(fd, &byte, 1) >= 0);
}

int Write(const char* path) {
  const int fd = open(path, O_WRONLY | O_CREAT, 0600);
  return Say(fd >= 0 && write(fd, "x", 1) == 1);
}

int FillFile(const char* path) {
  const int fd = open(path, O_WRONLY | O_CREAT, 0600);
  const std::string block(1 << 16, 'x');
  while (write(fd, block.data(), block.size()) > 0) {
  }
  return Say(false);
}

int Allocate() {
  for (int mib = 0; mib < 100000; mib += 16) {
    if (mmap(nullptr, 16 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED) {
      std::printf("refused after %d MiB\n", mib);
      return 0;
    }
  }
  return Say(true);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string action = argc > 1 ? argv[1] : "";
  const char* path = argc > 2 ? argv[2] : "";
  if (action == "hello") return Say(true);
  if (action == "socket") return Say(socket(AF_INET, SOCK_STREAM, 0) >= 0);
  if (action == "unix-socket") return Say(socket(AF_UNIX, SOCK_STREAM, 0) >= 0);
  if (action == "socket-pair") {
    int pair[2];
    return Say(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
  }
  if (action == "fork") return Fork();
  if (action == "vfork-shell") return Say(std::system("true") == 0);
  if (action == "thread") return Thread();
  if (action == "exec") return Execute(path);
  if (action == "exec-fd") return ExecuteDescriptor(path, 0);
  if (action == "exec-fd-200") return ExecuteDescriptor(path, 200);
  if (action == "read") return Read(path);
  if (action == "write") return Write(path);
  if (action == "mkdir") return Say(mkdir(path, 0700) == 0);
  if (action == "unlink") return Say(unlink(path) == 0);
  if (action == "ptrace") return Say(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
  if (action == "signal-parent") return Say(syscall(SYS_tgkill, getppid(), getppid(), SIGCONT) == 0);
  if (action == "kill-parent") return Say(kill(getppid(), SIGCONT) == 0);
  if (action == "fill-file") return FillFile(path);
  if (action == "allocate") return Allocate();
  if (action == "abort") std::abort();
  if (action == "environment") {
    std::printf("HOME=%s PATH=%s\n", std::getenv("HOME") ? "set" : "unset", std::getenv("PATH") ? "set" : "unset");
    return 0;
  }
  if (action == "descriptors") {
    int open_ones = 0;
    for (int fd = 3; fd < 4096; ++fd) open_ones += fcntl(fd, F_GETFD) >= 0;
    std::printf("%d\n", open_ones);
    return 0;
  }
  if (action == "spin") {
    volatile bool forever = true;
    while (forever) {
    }
  }
  if (action == "sleep") {
    for (;;) usleep(100000);
  }
  if (action == "close-and-sleep") {
    close(1);
    close(2);
    for (;;) usleep(100000);
  }
  if (action == "chatter") {
    for (int i = 0; i < 1000000; ++i) std::puts("word");
    return 0;
  }
  return 3;
}
