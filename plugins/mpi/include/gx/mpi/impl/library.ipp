// MPI's life in this process: the bodies.
#pragma once

#include <pthread.h>  // pthread_atfork

#include <algorithm>    // max, min
#include <array>        // launchers, texts of MPI
#include <atomic>       // who initialises
#include <cstdlib>      // atexit, getenv, strtol
#include <optional>     // a limit
#include <string>       // names
#include <string_view>  // texts of MPI

#include <gx/core/error.hpp>   // Error
#include <gx/mpi/guard.hpp>    // CallLimit
#include <gx/mpi/library.hpp>  // the declarations

namespace gx::mpi {

namespace detail::library {

inline std::atomic<bool> initialized_here = false;

inline LibraryThread& thread() {
    static auto* const one = new LibraryThread();
    return *one;
}

inline std::chrono::nanoseconds limit_at_the_end{};
inline std::atomic<bool (*)()> before_finalize = nullptr;

/// The ranks meet once, whoever calls MPI_Finalize.
inline bool meet_once() {
    const auto meet = before_finalize.exchange(nullptr);
    return meet != nullptr && meet();
}

/// What MPI_Finalize calls first: of a rank that calls it by itself, where the others leave it to
/// gx and wait for this one before.
inline int on_finalize(MPI_Comm, int, void*, void*) {
    if (before_finalize.load() == nullptr) return MPI_SUCCESS;  // gx's own call
    (void)meet_once();
    static CallLimit* limit = nullptr;  // of the rest of MPI_Finalize, whose end nothing tells
    constexpr std::chrono::seconds for_some{30};
    if (left_open)  // who has failed may still write what it has
        guard::write_all("gx: rank" + guard::rank_of_launcher() +
                         " calls MPI_Finalize where ranks have failed, or still run: it waits 30 s "
                         "for them at most\n");
    try {
        if (limit == nullptr)
            limit = new CallLimit(
                "MPI_Finalize",
                left_open ? std::min<std::chrono::nanoseconds>(limit_at_the_end, for_some)
                          : limit_at_the_end,
                "at the end of the job");
    } catch (const Error&) {  // no thread is left: without a limit
    }
    return MPI_SUCCESS;
}
inline void register_finalize_callback() {
    int key = MPI_KEYVAL_INVALID;
    expect(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_finalize, &key, nullptr),
           "MPI_Comm_create_keyval");
    expect(MPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr), "MPI_Comm_set_attr");
    expect(MPI_Comm_free_keyval(&key), "MPI_Comm_free_keyval");
}

/// At the exit of the process. MPI_Finalize waits for all ranks, and nothing can stop it: the ranks
/// meet before. One that dies within it leaves the others there (MPICH 4.0), and the launcher waits
/// for those: a limit ends them.
inline void finalize() {
    const bool met = meet_once();
    if (left_open) return;
    (void)guard::signal_of_parents_end(SIGTERM);
    std::optional<CallLimit> watch;
    try {
        if (met) watch.emplace("MPI_Finalize", limit_at_the_end, "at the end of the job");
    } catch (const Error&) {  // no thread is left: without a limit
    }
    thread().call([] {
        int finalized = 0;
        (void)MPI_Finalized(&finalized);
        if (finalized == 0) (void)MPI_Finalize();
    });
}

/// A child of fork() has no part in the job: neither the threads that it would wait for at its exit
/// nor a right to call MPI.
inline void forget_job() {
    before_finalize = nullptr;
    left_open = true;
}

/// What a launcher sets for all of its processes.
struct Launcher {
    const char *name, *size, *its_mpi;
};
inline constexpr std::array<Launcher, 3> launchers{{
    {"Open MPI's mpirun", "OMPI_COMM_WORLD_SIZE", "Open MPI"},
    {"an mpiexec of MPICH's kind", "PMI_SIZE", "MPICH"},
    {"srun", "SLURM_NTASKS", "the MPI of srun's option: --mpi=pmix Open MPI, --mpi=pmi2 MPICH"},
}};

}  // namespace detail::library

GX_DECL bool finalizes_library() { return detail::library::initialized_here; }

GX_DECL void before_finalize(bool (*f)()) { detail::library::before_finalize = f; }

GX_DECL void leave_library_open() { detail::library::left_open = true; }

GX_DECL std::string transport_name(coordination::Environment environment) {
    std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
    int length = 0;
    (void)MPI_Get_library_version(text.data(), &length);
    const std::string_view version(text.data(), static_cast<std::size_t>(length));
    std::string names;
    std::string_view device;  // of MPICH; other MPIs may take either library
    constexpr std::string_view before = "MPICH Device:";
    if (const auto at = version.find(before); at != version.npos) {
        device = version.substr(at + before.size());
        device = device.substr(0, device.find('\n'));
        device.remove_prefix(std::min(device.find_first_not_of(" \t"), device.size()));
        names = "its device " + std::string(device);
    }
    const auto add = [&](const char* name, bool is_read) {
        const char* const value = is_read ? environment(name) : nullptr;
        if (value != nullptr && *value != '\0')
            names += std::string(names.empty() ? "" : ", ") + name + "=" + value;
    };
    const bool is_open_mpi = version.starts_with("Open MPI");
    add("OMPI_MCA_pml", is_open_mpi);
    add("OMPI_MCA_btl", is_open_mpi);
    add("UCX_TLS", device.empty() || device.find("ucx") != device.npos);
    add("FI_PROVIDER", device.empty() || device.find("ofi") != device.npos);
    return names.empty() ? "a transport of its own choice, which is not asked for" : names;
}

GX_DECL void expect_launcher(coordination::Environment environment, const std::string& library) {
    for (const auto& l : detail::library::launchers)
        if (environment(l.size) != nullptr) return;
    if (environment("PMIX_RANK") != nullptr || environment("PMI_RANK") != nullptr) return;
    throw Error(
        "no MPI launcher has started this process: OMPI_COMM_WORLD_SIZE, PMI_SIZE and "
        "SLURM_NTASKS are not set. Start it as 'mpirun -n 4 PROGRAM', by the mpirun of " +
        library + ", or by srun");
}

GX_DECL void expect_its_launcher(coordination::Environment environment, int world_size,
                                 const std::string& library) {
    if (world_size > 1) return;
    for (const auto& l : detail::library::launchers) {
        const char* const text = environment(l.size);
        if (text == nullptr) continue;
        if (std::strtol(text, nullptr, 10) <= 1) return;
        throw Error(std::string(l.name) + " has started " + text + " processes (" + l.size +
                    "), and " + library +
                    ", which this program is built with, has a world of 1: they are of different "
                    "MPIs. Start it by the mpirun of " +
                    library + ", or build it with " + l.its_mpi);
    }
}

GX_DECL void expect_thread_level(int level) {
    if (level >= MPI_THREAD_FUNNELED) return;
    throw Error(library_name() + " has thread level " + thread_level_name(level) +
                ", and a process of gx has several threads: call "
                "MPI_Init_thread(..., MPI_THREAD_MULTIPLE, ...), or at least FUNNELED, or leave it "
                "to gx");
}

GX_DECL void expect_not_finalized(const char* what) {
    int finalized = 0;
    (void)MPI_Finalized(&finalized);
    if (finalized != 0)
        throw Error(std::string("MPI is finalised: ") + what + " before MPI_Finalize");
}

GX_DECL void expect_main_thread() {
    int is_main = 0;
    expect(MPI_Is_thread_main(&is_main), "MPI_Is_thread_main");
    if (is_main != 0) return;
    throw Error(library_name() +
                " has thread level FUNNELED, and this is not the thread that called "
                "MPI_Init_thread: make the world and call run() there, or ask for SERIALIZED");
}

GX_DECL Threading start_library(int wanted, std::chrono::nanoseconds limit) {
    namespace d = detail::library;
    const auto environment = [](const char* name) -> const char* { return std::getenv(name); };
    int initialized = 0, level = MPI_THREAD_SINGLE;
    expect_not_finalized("make the world");
    (void)MPI_Initialized(&initialized);
    static const int registered = ::pthread_atfork(nullptr, nullptr, d::forget_job);
    if (registered != 0) throw Error("pthread_atfork failed: no memory is left");
    if (initialized == 0) {
        expect_launcher(environment, library_name());  // else MPI may end the process by itself
        const CallLimit watch("MPI_Init_thread", limit);
        d::thread().call([&] {
            expect(MPI_Init_thread(nullptr, nullptr, wanted, &level), "MPI_Init_thread");
            expect(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN),
                   "MPI_Comm_set_errhandler");
            d::register_finalize_callback();
        });
        d::limit_at_the_end = std::max<std::chrono::nanoseconds>(limit, std::chrono::minutes(1));
        (void)std::atexit(d::finalize);
        d::initialized_here = true;
        if (level == MPI_THREAD_FUNNELED) d::funneled = &d::thread();
    }
    in_library([&] { expect(MPI_Query_thread(&level), "MPI_Query_thread"); });
    if (level == MPI_THREAD_SERIALIZED) d::serialized = true;
    if (d::initialized_here) {
        int size = 0;
        in_library([&] { expect(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size"); });
        expect_its_launcher(environment, size, library_name());
    }
    expect_thread_level(level);
    const bool on_callers = level == MPI_THREAD_FUNNELED && !d::initialized_here;
    if (on_callers) expect_main_thread();
    return {level, on_callers};
}

}  // namespace gx::mpi
