# Files compiled into a program, so that nothing has to be installed beside it.
#
#   qgpu_embed(NAME NAMESPACE ns FILES file...)    a library NAME with the header "embedded/NAME.h":
#     namespace qgpu::ns { struct File { std::string_view name, text; }; extern const std::vector<File>& Files(); }
# Names are the files' own, without folders, in the order given.
set(QGPU_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_DIR}/embed_files.cmake)

function(qgpu_embed name)
  cmake_parse_arguments(ARG "" "NAMESPACE" "FILES" ${ARGN})
  set(inputs)
  foreach(file ${ARG_FILES})
    get_filename_component(absolute ${file} ABSOLUTE)
    list(APPEND inputs ${absolute})
  endforeach()
  set(header ${CMAKE_BINARY_DIR}/embedded/${name}.h)
  set(source ${CMAKE_BINARY_DIR}/embedded/${name}.cc)
  string(REPLACE ";" "|" joined "${inputs}")
  add_custom_command(
    OUTPUT ${header} ${source}
    COMMAND ${CMAKE_COMMAND} -DNAME=${name} -DNAMESPACE=${ARG_NAMESPACE} "-DINPUTS=${joined}" -DHEADER=${header}
            -DSOURCE=${source} -P ${QGPU_EMBED_SCRIPT}
    DEPENDS ${inputs} ${QGPU_EMBED_SCRIPT}
    COMMENT "Embedding ${name}"
    VERBATIM)
  add_library(${name} STATIC ${source} ${header})
  target_link_libraries(${name} PUBLIC qgpu_flags)
endfunction()
