// How a rank's process may end, and what may be in the way of its beginning: modes of rank.cpp.
#pragma once

#include <signal.h>        // raise
#include <sys/resource.h>  // setrlimit
#include <sys/wait.h>      // waitpid
#include <unistd.h>        // fork, sysconf

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>  // what others have written
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <gx/coordination/socket.hpp>  // Descriptor
#include <gx/mpi/world.hpp>

namespace gx::mpi_tests {

/// Whether the system has none left for this process: see pthread_create in rank.cpp.
inline std::atomic<bool> has_no_threads = false;

/// Waits for a message that rank 1 does not send.
inline void wait_for_rank_1(auto& rank) {
    float value = 0;
    const auto bytes = std::as_writable_bytes(std::span(&value, 1));
    rank.transport().working_on(Operation{"all-reduce", 4});
    const Delivery d = rank.transport().wait(rank.transport().receive(1, 0, bytes));
    throw LostRank({.rank = rank.rank(), .step = 4, .operation = "all-reduce"}, d);
}

/// Each other rank is in its function, and tells rank 1, before that one goes on.
inline void let_others_begin(auto& rank) {
    float value = 0;
    const auto bytes = std::as_writable_bytes(std::span(&value, 1));
    auto& link = rank.transport();
    if (rank.rank() != 1) return (void)link.wait(link.send(1, 1, bytes));
    for (int other = 0; other < rank.ranks(); ++other)
        if (other != 1) (void)link.wait(link.receive(other, 1, bytes));
}

/// Rank 1 exits with 3, "in" a run or "behind" it; "never": all return. No world is destroyed.
/// "first": it exits, and the others destroy two worlds. "quietly": with 0, in a run, and the
/// others destroy theirs. A world has ended before.
inline std::string exits(const std::string& when) {
    {
        mpi::World<> over({.announce = false});
    }
    if (when == "quietly") {
        mpi::World<> world;
        world.run([](auto& rank) {
            let_others_begin(rank);
            if (rank.rank() == 1) std::exit(0);
            wait_for_rank_1(rank);
        });
    }
    if (when == "first") {
        mpi::World<> one, two;
        two.run([](auto&) {});
        if (one.first_local_rank() == 1) std::exit(3);
        return "returned";
    }
    mpi::World<> other;
    auto* const world = new mpi::World<>();
    const bool exits = world->first_local_rank() == 1 && when != "never";
    world->run([&](auto& rank) {
        if (when != "in") return;
        let_others_begin(rank);
        if (exits) std::exit(3);
        wait_for_rank_1(rank);
    });
    if (exits) std::exit(3);
    return "returned";
}

/// At the end of a run rank 1 has no descriptor left but those that the run gives back, or "none"
/// at all. It ends behind the others, which their launcher ends with it.
inline std::string out_of_files(const std::string& left, const std::string& folder) {
    mpi::World<> world({.join_deadline = std::chrono::seconds(5)});
    const bool is_rank_1 = world.first_local_rank() == 1;
    rlimit before{};
    (void)::getrlimit(RLIMIT_NOFILE, &before);
    std::vector<coordination::Descriptor> taken;
    world.run([&](auto&) {
        if (!is_rank_1) return;
        rlimit limit = before;
        limit.rlim_cur = left == "none" ? 4 : 256;
        (void)::setrlimit(RLIMIT_NOFILE, &limit);
        for (int d = ::dup(0); d >= 0; d = ::dup(0)) taken.emplace_back(d);
    });
    (void)::setrlimit(RLIMIT_NOFILE, &before);
    taken.clear();
    if (left != "none") return "returned";
    std::string next;
    try {
        world.run([](auto&) {});
    } catch (const Error& e) {
        next = e.what();
    }
    while (is_rank_1 &&
           !(std::filesystem::exists(folder + "/0") && std::filesystem::exists(folder + "/2")))
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return "returned; next: " + next;
}

/// Rank 1 dies at its exit, long after the others are at theirs: by SIGKILL, or "quietly", with 0.
inline std::string dies_at_exit(const std::string& how) {
    mpi::World<> world;
    world.run([](auto&) {});
    if (world.first_local_rank() != 1) return "returned";
    static bool quietly = false;
    quietly = how == "quietly";
    (void)std::atexit([] {
        std::this_thread::sleep_for(std::chrono::milliseconds(500));
        if (quietly) ::_exit(0);
        (void)::raise(SIGKILL);
    });
    return "returned";
}

/// Six worlds, which six threads destroy, at first at once, then each rank in another order.
inline std::string ends_in_threads() {
    for (int i = 0; i < 4; ++i) {
        std::array<std::optional<mpi::World<>>, 6> worlds;
        for (auto& world : worlds) world.emplace(mpi::JobOptions{.announce = false});
        std::vector<std::thread> threads;
        for (int k = 0; k < 6; ++k)
            threads.emplace_back([&, k] {
                auto& world = worlds[static_cast<std::size_t>(k)];
                const int turn = i * k * (world->first_local_rank() + 1) % 6;
                std::this_thread::sleep_for(std::chrono::milliseconds(turn));
                world.reset();
            });
        for (std::thread& one : threads) one.join();
    }
    return "returned";
}

/// The process of rank 0 initialises and ends MPI itself, the others leave both to gx.
inline std::string one_ends_mpi(bool is_first) {
    int given = 0;
    if (is_first) (void)MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &given);
    {
        mpi::World<> world;
        world.run([](auto&) {});
    }
    if (is_first) (void)MPI_Finalize();
    return "returned";
}

/// Rank 1 throws beside a world, where the others make another one.
inline std::string throws_beside_a_world() {
    const mpi::JobOptions soon{.join_deadline = std::chrono::seconds(5)};
    mpi::World<> world(soon);
    if (world.first_local_rank() == 1) throw Error("the disk is full");
    mpi::World<> another(soon);
    return "returned";
}

/// Rank 1 handles an error that it throws beside a world, which the others end later than its
/// patience; then all make another one.
inline std::string recovers() {
    const mpi::JobOptions impatient{.patience = std::chrono::milliseconds(1)};
    try {
        mpi::World<> world(impatient);
        world.run([](auto&) {});
        if (world.first_local_rank() == 1) throw Error("the disk is full");
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
    } catch (const Error&) {
    }
    mpi::World<> another(impatient);
    another.run([](auto&) {});
    return "returned";
}

/// Rank 1 ends MPI itself, which the others leave to gx; by PMPI, as rank.cpp wants that call to
/// come from the thread that has initialised MPI.
inline std::string finalizes() {
    mpi::World<> world;
    world.run([](auto&) {});
    if (world.first_local_rank() == 1) (void)PMPI_Finalize();
    return "returned";
}

/// A child of each rank ends as programs do, with and without destroying its copy of the world.
inline std::string forks() {
    for (const bool destroys : {false, true}) {
        auto world = std::make_unique<mpi::World<>>();
        world->run([](auto&) {});
        const pid_t child = ::fork();
        if (child == 0) {
            (void)::alarm(20);
            if (destroys) world.reset();
            std::exit(0);
        }
        int status = 0;
        (void)::waitpid(child, &status, 0);
        if (status != 0) return "its child was ended by " + std::to_string(status);
        world->run([](auto&) {});
    }
    return "returned";
}

/// A child of each rank, in its run, returns from the rank's function, throws, or is sent SIGTERM.
inline std::string forks_in_a_run() {
    mpi::World<> world;
    std::string said = "returned";
    for (const char how : {'r', 't', 's'})
        world.run([&](auto&) {
            const pid_t child = ::fork();
            if (child == 0) {
                (void)::alarm(20);
                if (how == 't') throw Error("a child can't go on");
                while (how == 's') ::pause();
                return;
            }
            if (how == 's') (void)::kill(child, SIGTERM);
            int status = 0;
            (void)::waitpid(child, &status, 0);
            const bool right = how == 's'
                                   ? WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM
                                   : WIFEXITED(status) && WEXITSTATUS(status) == (how == 't');
            if (!right) said = std::string("child ") + how + " ended by " + std::to_string(status);
        });
    return said;
}

/// Rank 1 ends MPI itself, where the others run, whose error ends their processes; or "all" do, and
/// run a world then.
inline std::string runs_finalized(bool all) {
    mpi::World<> world;
    world.run([](auto&) {});
    const bool ends_it = all || world.first_local_rank() == 1;
    if (ends_it) (void)PMPI_Finalize();
    try {
        if (all || !ends_it) world.run([](auto&) {});
    } catch (const Error& e) {
        if (!all) throw;
        return e.what();
    }
    return "returned";
}

/// Rank 1 has no thread left when it runs; or, "at the end", to leave its world and end its job.
inline std::string lacks_threads(const std::string& when) {
    static auto world = std::make_unique<mpi::World<>>();
    world->run([](auto&) {});
    has_no_threads = world->first_local_rank() == 1;
    if (when == "run") world->run([](auto&) {});
    if (when == "leave") world.reset();
    return "returned";
}

/// The signal of a launcher comes to rank 1 as its run ends; another run follows.
inline std::string signalled_at_the_end() {
    mpi::World<> world;
    world.run([](auto& rank) {
        if (rank.rank() == 1) (void)::raise(SIGTERM);
    });
    world.run([](auto&) {});
    return "a second run";
}

/// The notes of a world where files may have half of the bytes of the machine's memory.
inline std::string with_small_files() {
    const auto half = rlim_t(::sysconf(_SC_PHYS_PAGES)) * rlim_t(::sysconf(_SC_PAGESIZE)) / 2;
    const rlimit few{half, half};
    if (::setrlimit(RLIMIT_FSIZE, &few) != 0) return "no limit was set";
    mpi::World<> world;
    std::string text;
    for (const std::string& note : world.info().notes) text += note + "; ";
    return text;
}

/// A rank in its run runs the same world.
inline std::string runs_in_itself() {
    mpi::World<> world;
    world.run([&](auto&) { world.run([](auto&) {}); });
    return "returned";
}

/// A world of `kind`: "null" or "inter"; every process is a member of MPI_COMM_WORLD alone.
inline std::string of_communicator(const std::string& kind) {
    mpi::start_library();
    MPI_Comm communicator = MPI_COMM_NULL;
    if (kind == "inter") {
        int rank = 0;
        (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        MPI_Comm half = MPI_COMM_NULL;
        (void)MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
        (void)MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 0, &communicator);
    }
    std::string said = "made";
    try {
        mpi::World<> world(communicator);
    } catch (const Error& e) {
        said = e.what();
    }
    return said;
}

}  // namespace gx::mpi_tests
