// The arrows that fold parts of the navigation have no text: give them a name.
document.addEventListener("DOMContentLoaded", () => {
  for (const arrow of document.querySelectorAll(".bd-sidenav summary")) {
    arrow.setAttribute("aria-label", "Show or hide the pages below");
  }
});
