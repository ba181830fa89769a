// Launch: the variables of each launcher.
#pragma once

#include <algorithm>  // all_of
#include <charconv>   // from_chars
#include <cstdint>    // int64_t
#include <cstdlib>    // getenv

#include <gx/coordination/launch.hpp>  // the declarations
#include <gx/coordination/socket.hpp>  // listening_host
#include <gx/core/error.hpp>           // Error

namespace gx::coordination {

namespace detail::launch {

struct Variables {
    const char *launcher, *rank, *ranks, *local_rank, *local_ranks;
    const char* job;  ///< its value differs between the runs of a host; nullptr: there is none
};

inline constexpr Variables torchrun{
    "torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID"};
inline constexpr Variables open_mpi{"mpirun",
                                    "OMPI_COMM_WORLD_RANK",
                                    "OMPI_COMM_WORLD_SIZE",
                                    "OMPI_COMM_WORLD_LOCAL_RANK",
                                    "OMPI_COMM_WORLD_LOCAL_SIZE",
                                    "PMIX_NAMESPACE"};
inline constexpr Variables hydra{"mpiexec",         "PMI_RANK",        "PMI_SIZE",
                                 "MPI_LOCALRANKID", "MPI_LOCALNRANKS", nullptr};
inline constexpr Variables slurm{"srun",          "SLURM_PROCID", "SLURM_NTASKS",
                                 "SLURM_LOCALID", nullptr,        "SLURM_JOB_ID"};

[[noreturn]] inline void refuse(const std::string& name, const std::string& value,
                                const std::string& expected) {
    throw Error(name + " is '" + value + "': expected " + expected);
}

/// Reads the variables, and throws sentences that name them.
class Reader {
public:
    explicit Reader(Environment environment) : environment_(environment) {}

    [[nodiscard]] bool has(const char* name) { return environment_(name) != nullptr; }
    [[nodiscard]] std::string text(const char* name) {
        const char* const value = name == nullptr ? nullptr : environment_(name);
        return value == nullptr ? "" : value;
    }
    /// A number from `least` to `most`, which is `what`; nothing where it is not set.
    [[nodiscard]] std::optional<int> number(const char* name, int least, int most,
                                            const std::string& what) {
        if (name == nullptr || !has(name)) return std::nullopt;
        const std::string value = text(name);
        int n = 0;
        const char* const end = value.data() + value.size();
        const auto [at, error] = std::from_chars(value.data(), end, n);
        if (value.empty() || at != end || error != std::errc() || n < least || n > most)
            refuse(
                name, value,
                what + ", a number from " + std::to_string(least) + " to " + std::to_string(most));
        return n;
    }
    [[nodiscard]] int required(const Variables& v, const char* name, int least, int most,
                               const std::string& what) {
        if (const auto n = number(name, least, most, what)) return *n;
        throw Error(std::string(name) + " is not set, and " + present(v) + " is '" +
                    text(present(v)) + "': expected " + what + ", which " + v.launcher +
                    " sets. Start all ranks by it, or set neither");
    }

private:
    [[nodiscard]] const char* present(const Variables& v) {
        return has(v.rank) ? v.rank : has(v.ranks) ? v.ranks : v.local_rank;
    }
    Environment environment_;
};

inline const Variables* launcher_of(Reader& read) {
    if (read.has(torchrun.rank) || read.has(torchrun.ranks)) return &torchrun;
    if (read.has(open_mpi.rank) || read.has(open_mpi.ranks)) return &open_mpi;
    if (read.has(hydra.local_rank)) return &hydra;  // srun sets PMI_RANK too
    if (read.has(slurm.rank)) return &slurm;
    return nullptr;
}

inline constexpr int ranks_max = 1 << 20;

inline Launch ranks_of(Reader& read, const Variables& v) {
    Launch l{.launcher = v.launcher};
    l.ranks = read.required(v, v.ranks, 1, ranks_max, "the number of ranks");
    const std::string of_all = std::string(" of ") + std::to_string(l.ranks) + " (" + v.ranks + ")";
    l.rank = read.required(v, v.rank, 0, l.ranks - 1, "a rank" + of_all);
    l.local_ranks =
        read.number(v.local_ranks, 1, l.ranks, "the ranks on this host" + of_all).value_or(-1);
    const bool counted = l.local_ranks > 0;
    l.local_rank = read.number(v.local_rank, 0, (counted ? l.local_ranks : l.ranks) - 1,
                               counted ? "a rank on this host of " + std::to_string(l.local_ranks) +
                                             " (" + v.local_ranks + ")"
                                       : "a rank on this host" + of_all)
                       .value_or(-1);
    if (l.local_rank > l.rank)
        refuse(v.local_rank, std::to_string(l.local_rank),
               std::string("at most ") + v.rank + ", which is " + std::to_string(l.rank));
    return l;
}

inline std::string job_of(Reader& read, const Variables& v) {
    std::string job = read.text(v.job);
    if (&v == &slurm)
        job += "." + read.text("SLURM_STEP_ID") + "." + read.text("SLURM_RESTART_COUNT");
    if (&v == &torchrun) job += "." + read.text("TORCHELASTIC_RESTART_COUNT");
    return job;
}

/// FNV-1a: the same on all ranks.
inline int port_of_job(std::string_view job) {
    std::uint32_t hash = 2166136261u;
    for (const char c : job) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
    return 20000 + static_cast<int>(hash % 10000);
}

inline int port_of(Reader& read, const Variables& v, const std::string& job) {
    constexpr int port_max = 65535;
    if (const auto port = read.number("GX_PORT", 1, port_max, "a free port of rank 0's host"))
        return *port;
    if (const auto port = read.number("MASTER_PORT", 1, port_max - 1,
                                      "the port below the one that gx takes (or set GX_PORT)"))
        return *port + 1;
    const bool named = v.job != nullptr && read.has(v.job);
    return named && &v != &torchrun ? port_of_job(job) : 29501;
}

inline std::string host_of(Reader& read, const Variables& v, const Launch& l) {
    if (read.has("MASTER_ADDR")) {
        std::string host = read.text("MASTER_ADDR");
        if (host.size() > 2 && host.front() == '[' && host.back() == ']')  // as in a URL
            host = host.substr(1, host.size() - 2);
        const auto is_plain = [](char c) {
            return c > ' ' && c != 0x7f && c != '/' && c != '[' && c != ']';
        };
        if (host.empty() || !std::ranges::all_of(host, is_plain))
            refuse("MASTER_ADDR", host, "the name or the IP address of the host of rank 0");
        if (std::ranges::count(host, ':') == 1)
            refuse("MASTER_ADDR", host,
                   "the name or the IP address of the host of rank 0, and its port as MASTER_PORT");
        return host;
    }
    if (&v == &slurm) {
        if (read.has("SLURM_STEP_NODELIST")) return first_host(read.text("SLURM_STEP_NODELIST"));
        throw Error(std::string("SLURM_STEP_NODELIST is not set, and SLURM_PROCID is '") +
                    read.text("SLURM_PROCID") +
                    "': this is the script of a job and no step of it. Start the program by srun");
    }
    if (l.local_ranks == l.ranks || l.ranks == 1) return "127.0.0.1";
    throw Error("MASTER_ADDR is not set, and " +
                (l.local_ranks < 0
                     ? std::string(v.local_ranks) + " is not set either"
                     : std::string(v.local_ranks) + " is '" + std::to_string(l.local_ranks) +
                           "' of " + std::to_string(l.ranks)) +
                ": expected the name or the IP address of the host of rank 0, where ranks are on "
                "several hosts. Set it for all ranks");
}

}  // namespace detail::launch

GX_DECL std::optional<Launch> launch_from(Environment environment) {
    namespace d = detail::launch;
    d::Reader read(environment);
    const d::Variables* const v = d::launcher_of(read);
    if (v == nullptr) return std::nullopt;
    Launch l = d::ranks_of(read, *v);
    const std::string job = d::job_of(read, *v), host = d::host_of(read, *v, l);
    const std::string port = std::to_string(d::port_of(read, *v, job));
    l.host = host.find(':') == host.npos ? host : "[" + host + "]";
    l.address = "tcp:" + l.host + ":" + port;
    l.listens = "tcp:" + listening_host(l.host) + ":" + port;
    l.run_id = l.launcher + " " + job.substr(0, 512);
    return l;
}

GX_DECL std::optional<int> local_rank_from(Environment environment) {
    namespace d = detail::launch;
    d::Reader read(environment);
    const d::Variables* const v = d::launcher_of(read);
    if (v == nullptr) return std::nullopt;
    // In the script of a job they are set too, to 0, though nothing has started ranks.
    if (v == &d::slurm && !read.has("SLURM_STEP_NODELIST")) return std::nullopt;
    return read.number(v->local_rank, 0, d::ranks_max - 1, "a rank on this host");
}

GX_DECL Launch launch_from_environment() {
    const auto found =
        launch_from([](const char* name) -> const char* { return std::getenv(name); });
    if (found) return *found;
    throw Error(
        "no launcher has started this process: RANK, OMPI_COMM_WORLD_RANK, MPI_LOCALRANKID "
        "and SLURM_PROCID are not set. Start it by torchrun --no-python, mpirun or srun, or set "
        "RANK, "
        "WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT for each process");
}

// ---- Lists of hosts ------------------------------------------------------------------------

namespace detail::launch {

[[noreturn]] inline void refuse_list(std::string_view hosts, const std::string& why) {
    refuse("SLURM_STEP_NODELIST", std::string(hosts),
           "a list of hosts such as node[03-05,9],login1; " + why);
}

inline bool is_number(std::string_view text) {
    return !text.empty() && text.size() <= 9 &&
           std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

/// The first number of a bracket's text, "03-05,9"; checks all of them.
inline std::string first_number(std::string_view hosts, std::string_view bracket) {
    std::string first;
    for (std::size_t at = 0; at <= bracket.size();) {
        const std::string_view range = bracket.substr(at, bracket.find(',', at) - at);
        at += range.size() + 1;
        const std::size_t dash = range.find('-');
        const std::string_view low = range.substr(0, dash),
                               high = dash == range.npos ? low : range.substr(dash + 1);
        const auto value = [](std::string_view text) { return std::stol(std::string(text)); };
        if (!is_number(low) || !is_number(high) || value(low) > value(high))
            refuse_list(hosts, "'" + std::string(range) + "' is no range of numbers");
        if (first.empty()) first = low;
    }
    return first;
}

}  // namespace detail::launch

GX_DECL std::string first_host(std::string_view hosts) {
    namespace d = detail::launch;
    std::string first, host;
    for (std::size_t i = 0; i <= hosts.size(); ++i) {
        if (i == hosts.size() || hosts[i] == ',') {
            if (host.empty()) d::refuse_list(hosts, "a name is empty");
            if (first.empty()) first = host;
            host.clear();
        } else if (hosts[i] == '[') {
            const std::size_t end = hosts.find(']', i);
            if (end == hosts.npos) d::refuse_list(hosts, "a bracket is not closed");
            host += d::first_number(hosts, hosts.substr(i + 1, end - i - 1));
            i = end;
        } else {
            const char c = hosts[i];
            const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
            const bool digit = c >= '0' && c <= '9';
            if (!letter && !digit && c != '-' && c != '_' && c != '.')
                d::refuse_list(hosts, std::string("'") + c + "' is in no name of a host");
            host += c;
        }
    }
    return first;
}

}  // namespace gx::coordination
