// launch(): processes as a launcher starts them, with doubles of the GPUs and of NCCL; for tests.
#pragma once

#include <sys/wait.h>  // waitpid
#include <unistd.h>    // fork, _exit

#include <array>       // what ranks have thrown
#include <cstdio>      // fflush
#include <functional>  // what they do
#include <iostream>    // cout
#include <string>      // sentences
#include <vector>      // ranks

#include <gtest/gtest.h>

#include <gx/cuda_testing/runtime.hpp>
#include <gx/nccl/launched_world.hpp>
#include <gx/nccl_testing/nccl.hpp>

#include <support/files.hpp>          // Folder
#include <testing/processes_run.hpp>  // Shared

extern "C" [[gnu::weak]] void __gcov_dump();  // where coverage is measured

namespace gx::nccl_tests {

/// How each process ended.
struct Ended {
    std::vector<std::string> errors{};  ///< [rank]: the sentence that it threw; "": none
    std::vector<int> signals{};         ///< [rank]: that killed it; 0: none
};

struct LaunchSetup {
    std::vector<std::string> nodes{};  ///< [rank]; empty: all on one
    std::vector<int> gpus_seen{};      ///< [rank]; empty: 8
    std::vector<int> first_bus{};      ///< [rank]; empty: 1
    cuda_testing::StreamProgress progress = cuda_testing::StreamProgress::random;
    std::uint64_t seed = 1;
    std::chrono::nanoseconds deadline = std::chrono::seconds(60);
    std::chrono::nanoseconds join_deadline = std::chrono::seconds(60);
};

/// Runs `rank(options)` in a process a rank. A process whose expectations fail fails the test.
inline Ended launch(int ranks, const LaunchSetup& setup,
                    const std::function<void(const nccl::LaunchedOptions&)>& rank) {
    using Sentence = std::array<char, 1000>;
    const testing_support::Folder folder;
    const testing_support::Shared<std::array<Sentence, 8>> said;
    const auto of = [](const auto& values, int r, auto otherwise) {
        return values.empty() ? otherwise : values[static_cast<std::size_t>(r)];
    };
    std::cout.flush();
    std::fflush(stdout);
    const bool failed = ::testing::Test::HasFailure();
    std::vector<pid_t> processes;
    for (int r = 0; r < ranks; ++r) {
        const pid_t process = ::fork();
        if (process == 0) {
            cuda_testing::reset({.seed = setup.seed + static_cast<unsigned>(r),
                                 .progress = setup.progress,
                                 .devices = of(setup.gpus_seen, r, 8),
                                 .first_bus = of(setup.first_bus, r, 1),
                                 .check_at_exit = false});
            nccl_testing::set_options({.processes = true});
            const std::string address = "unix:" + (folder / "socket").string();
            const std::string node = of(setup.nodes, r, std::string("a"));
            int local = 0;
            for (int before = 0; before < r; ++before)
                local += of(setup.nodes, before, std::string("a")) == node;
            int status = 0;
            try {
                rank({.launch = {.launcher = "torchrun",
                                 .rank = r,
                                 .ranks = ranks,
                                 .local_rank = local,
                                 .host = "127.0.0.1",
                                 .address = address,
                                 .listens = address,
                                 .run_id = "test",
                                 .node = node},
                      .deadline = setup.deadline,
                      .join_deadline = setup.join_deadline});
                cuda_testing::expect_clean();
            } catch (const std::exception& e) {
                const std::string text = e.what();
                text.copy((*said)[static_cast<std::size_t>(r)].data(), Sentence().size() - 1);
                status = 1;
            }
            if (!failed && ::testing::Test::HasFailure()) status = 2;
            std::cout.flush();
            std::fflush(stdout);
            if (__gcov_dump != nullptr) __gcov_dump();
            ::_exit(status);
        }
        processes.push_back(process);
    }
    Ended ended;
    for (int r = 0; r < ranks; ++r) {
        int status = 0;
        ::waitpid(processes[static_cast<std::size_t>(r)], &status, 0);
        const std::string text = (*said)[static_cast<std::size_t>(r)].data();
        EXPECT_NE(WIFEXITED(status) ? WEXITSTATUS(status) : 0, 2) << "rank " << r << text;
        ended.errors.push_back(text);
        ended.signals.push_back(WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    }
    return ended;
}

}  // namespace gx::nccl_tests
