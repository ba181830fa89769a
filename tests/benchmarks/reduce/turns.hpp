// turns: what the ranks of an MPI job are told to do next, while others are measured between.
#pragma once

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <vector>

#include <mpi.h>

namespace gx::bench {

/// A line of rank 0's stdin: "WHAT ELEMENTS REPEATS".
struct Turn {
    char what[32] = "";
    unsigned long elements = 0;
    int repeats = 0;
};

/// The next turn, on all ranks; false at the end of stdin. Ranks sleep until it comes: a rank that
/// waited inside MPI would spin, and take the core of what is measured meanwhile.
inline bool next_turn(Turn& turn, int rank, int ranks) {
    constexpr int tag = 7, nap_us = 20000;
    turn = {};
    if (rank == 0) {
        if (std::scanf("%31s %lu %d", turn.what, &turn.elements, &turn.repeats) != 3)
            turn.repeats = -1;
        for (int r = 1; r < ranks; ++r)
            MPI_Send(&turn, sizeof(turn), MPI_BYTE, r, tag, MPI_COMM_WORLD);
    } else {
        for (int there = 0; there == 0;) {
            MPI_Iprobe(0, tag, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
            if (there == 0) usleep(nap_us);
        }
        MPI_Recv(&turn, sizeof(turn), MPI_BYTE, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    return turn.repeats >= 0;
}

/// Prints the times of a turn, in microseconds, and the pages of its buffer on one line. Not one by
/// one: MPICH does not buffer stdout, so that each would wake its launcher's processes on a core
/// that a rank waits on.
inline void print(const std::vector<double>& times, int pages_kib) {
    for (const double us : times) std::printf("%.3f ", us);
    std::printf("%d\n", pages_kib);
    std::fflush(stdout);
}

/// All ranks have come; they yield meanwhile.
inline void meet() {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    for (int done = 0; done == 0;) {
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        if (done == 0) sched_yield();
    }
}

}  // namespace gx::bench
