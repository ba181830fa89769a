// The build id in the notes of the program that runs.
#pragma once

#include <elf.h>   // NT_GNU_BUILD_ID
#include <link.h>  // dl_iterate_phdr

#include <cstring>  // memcpy

#include <fmt/core.h>  // digits

#include <gx/io/build_id.hpp>  // the declaration

namespace gx {

namespace detail::elf_notes {

GX_DECL std::string id_in(std::span<const std::uint8_t> notes, std::size_t alignment) {
    const auto aligned = [&](std::size_t n) { return (n + alignment - 1) / alignment * alignment; };
    for (std::size_t at = 0; at + sizeof(ElfW(Nhdr)) <= notes.size();) {
        ElfW(Nhdr) note{};
        std::memcpy(&note, &notes[at], sizeof(note));
        const std::size_t name = at + sizeof(note), id = aligned(name + note.n_namesz);
        at = aligned(id + note.n_descsz);
        if (id + note.n_descsz > notes.size()) return "";
        if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != 4 ||
            std::memcmp(&notes[name], "GNU", 4) != 0)
            continue;
        std::string text;
        for (const std::uint8_t byte : notes.subspan(id, note.n_descsz))
            text += fmt::format("{:02x}", byte);
        return text;
    }
    return "";
}

/// The first object is the program: the others are not looked at.
inline int read_program(dl_phdr_info* object, std::size_t, void* text) {
    for (const auto& segment : std::span(object->dlpi_phdr, object->dlpi_phnum)) {
        if (segment.p_type != PT_NOTE) continue;
        const auto* const notes =
            reinterpret_cast<const std::uint8_t*>(object->dlpi_addr + segment.p_vaddr);
        auto& id = *static_cast<std::string*>(text);
        id = id_in({notes, segment.p_memsz}, segment.p_align == 8 ? 8 : 4);
        if (!id.empty()) return 1;
    }
    return 1;
}

}  // namespace detail::elf_notes

GX_DECL std::string build_id() {
    std::string text;
    (void)::dl_iterate_phdr(detail::elf_notes::read_program, &text);
    return text;
}

}  // namespace gx
