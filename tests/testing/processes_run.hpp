// Shared, WithProcesses, open_descriptors, status_of_child: what tests of processes share.
#pragma once

#include <dirent.h>     // opendir
#include <sys/mman.h>   // mmap
#include <sys/prctl.h>  // PR_SET_CHILD_SUBREAPER
#include <sys/wait.h>   // waitpid
#include <unistd.h>     // fork, alarm

#include <gtest/gtest.h>

#include <new>      // placement
#include <set>      // distinct processes
#include <string>   // sentences
#include <utility>  // forward

#include <gx/core/detail/sanitizers.hpp>  // GX_THREAD_SANITIZER

namespace testing_support {

/// A T that processes forked later share with this one; T holds no pointers. Zero at first.
template <class T>
class Shared {
public:
    Shared()
        : value_(new(::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                            -1, 0)) T{}) {}
    Shared(const Shared&) = delete;
    Shared& operator=(const Shared&) = delete;
    ~Shared() { ::munmap(value_, sizeof(T)); }
    T& operator*() const { return *value_; }
    T* operator->() const { return value_; }

private:
    T* value_;
};

/// Tests that fork: skipped under the thread sanitizer, whose runtime does not carry the state of
/// its background thread and of locks through fork().
class WithProcesses : public ::testing::Test {
protected:
    void SetUp() override {
        if constexpr (GX_THREAD_SANITIZER)
            GTEST_SKIP() << "the thread sanitizer does not follow threads through fork()";
    }
};

inline int open_descriptors() {
    int count = 0;
    DIR* folder = ::opendir("/proc/self/fd");
    while (::readdir(folder) != nullptr) ++count;
    ::closedir(folder);
    return count;
}
/// Orphans below this process become its children, so that waitpid() sees them.
inline void adopt_orphans() { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }

/// What `child` returns in a child of fork(), which has a minute for it.
template <class F>
int status_of_child(F child) {
    const pid_t process = ::fork();
    if (process == 0) {
        ::alarm(60);
        ::_exit(child());
    }
    int status = 0;
    ::waitpid(process, &status, 0);
    return status;
}

/// The sentence that f throws, or "".
template <class F>
std::string error_of_run(F f) {
    try {
        f();
    } catch (const std::exception& e) {
        return e.what();
    }
    return "";
}

}  // namespace testing_support
