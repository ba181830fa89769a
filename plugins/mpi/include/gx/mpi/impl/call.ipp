// Calls of MPI: the bodies.
#pragma once

#include <array>  // texts of MPI

#include <gx/core/error.hpp>          // Error
#include <gx/mpi/backoff.hpp>         // Backoff
#include <gx/mpi/call.hpp>            // the declarations
#include <gx/mpi/library_thread.hpp>  // in_library

namespace gx::mpi {

GX_DECL void expect(int code, const char* call) {
    if (code == MPI_SUCCESS) return;
    std::array<char, MPI_MAX_ERROR_STRING> text{};
    int length = 0;
    (void)MPI_Error_string(code, text.data(), &length);
    throw Error(std::string(call) + " failed in " + library_name() + ": " +
                std::string(text.data(), static_cast<std::size_t>(length)));
}

GX_DECL std::string library_name() {
    std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
    int length = 0;
    (void)MPI_Get_library_version(text.data(), &length);
    std::string name(text.data(), static_cast<std::size_t>(length));
    name.resize(std::min(name.size(), name.find_first_of(",\n")));
    const auto cut = [&](const std::string& part, const std::string& instead) {
        if (const auto at = name.find(part); at != name.npos)
            name.replace(at, part.size(), instead);
    };
    cut("Open MPI v", "Open MPI ");
    cut("MPICH Version:", "MPICH ");
    std::erase(name, '\t');
    while (const auto at = name.find("  ") + 1) name.erase(at - 1, 1);
    return name;
}

GX_DECL std::string thread_level_name(int level) {
    if (level == MPI_THREAD_MULTIPLE) return "MULTIPLE";
    if (level == MPI_THREAD_SERIALIZED) return "SERIALIZED";
    return level == MPI_THREAD_FUNNELED ? "FUNNELED" : "SINGLE";
}

GX_DECL void complete(MPI_Request request, const char* call, std::chrono::nanoseconds limit) {
    const auto begin = std::chrono::steady_clock::now();
    for (Backoff backoff;; backoff.pause()) {
        int done = 0;
        in_library([&] { expect(MPI_Test(&request, &done, MPI_STATUS_IGNORE), call); });
        if (done != 0) return;
        if (std::chrono::steady_clock::now() - begin < limit) continue;
        detail::library::left_open = true;
        throw Error(
            "not all ranks came to " + std::string(call) + " within " +
            std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(limit).count()) +
            " ms: look at the errors of the other ranks. Every process makes the same worlds, in "
            "the same order, and calls run() equally often");
    }
}

}  // namespace gx::mpi
