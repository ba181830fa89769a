// MPI_Allreduce of an MPI without gx: a peer of ./gx bench reduce, and a rank of a job.
// Run:     mpirun -n 2 gx_reduce_peer_openmpi, with lines "MPI_Allreduce ELEMENTS REPEATS" on stdin
// Prints:  for each line the microseconds of each repeat on rank 0, on one line, and the KiB of the
//          pages of its buffer
#include "../large_pages.hpp"
#include "pages.hpp"
#include "turns.hpp"

int main(int count, char** arguments) {
    MPI_Init(&count, &arguments);
    int rank = 0, ranks = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (gx::bench::Turn turn; gx::bench::next_turn(turn, rank, ranks);) {
        const std::size_t bytes = turn.elements * sizeof(float);
        void* const memory = gx::bench::on_large_pages(bytes);
        auto* const values = static_cast<float*>(memory);
        std::vector<double> times;
        times.reserve(static_cast<std::size_t>(turn.repeats));
        for (int i = -2; i < turn.repeats; ++i) {
            for (std::size_t k = 0; k < turn.elements; ++k) values[k] = 1.0f;
            MPI_Barrier(MPI_COMM_WORLD);
            const double from = MPI_Wtime();
            MPI_Allreduce(MPI_IN_PLACE, values, static_cast<int>(turn.elements), MPI_FLOAT, MPI_SUM,
                          MPI_COMM_WORLD);
            if (i >= 0) times.push_back(1e6 * (MPI_Wtime() - from));
            if (values[turn.elements - 1] != static_cast<float>(ranks)) std::abort();
        }
        if (rank == 0) gx::bench::print(times, gx::bench::pages_kib(memory, bytes));
        std::free(memory);
    }
    MPI_Finalize();
}
